//! The list of cases, and the macros that make tests of it. A case that does not stand here is dead code, and warned of.

/// Hands the list of cases, by file, to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($($then:ident)::+; $($rest:tt)*) => {
        $($then)::+! { $($rest)*
            submission: {
                a_submission_is_read_back_with_every_field_and_its_payload_byte_for_byte
            }
        }
    };
}

/// Makes the cases reachable by name.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_reexport {
    ($($file:ident: { $($case:ident)* })*) => {
        $(pub use super::$file::{$($case),*};)*
    };
}

/// Makes a test of every case. Takes an async function that makes an empty store.
#[macro_export]
macro_rules! conformance_suite {
    ($make:expr) => {
        $crate::conformance_cases!($crate::conformance_tests; $make;);
    };
}

/// Makes a test of every case that is listed.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($make:expr; $($file:ident: { $($case:ident)* })*) => {
        $($(
            #[test]
            fn $case() {
                $crate::conformance::run_case($make, async |bench| $crate::conformance::cases::$case(bench).await);
            }
        )*)*
    };
}
