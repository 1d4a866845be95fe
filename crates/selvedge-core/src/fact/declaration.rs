//! The declaration of a fact: its fields, and the events, the end of an attempt and the state that follow from it.

use super::events::EventBody;
use crate::history::AttemptEnd;
use crate::state::StateName;

/// Gives the readers of the log the events, the end of an attempt and the state that follow from a fact.
pub(crate) trait Recorded {
    /// Returns the public events, in order, with the texts as they are stored.
    fn public_events(&self) -> Vec<EventBody>;

    /// Returns the attempt that the change ended, and its end. Default: it ended none.
    fn attempt_end(&self) -> Option<(u32, AttemptEnd)> {
        None
    }

    /// Returns the state after the change; none if it does not change the state. Default: the state that follows the
    /// end of the attempt.
    fn state_after(&self) -> Option<StateName> {
        self.attempt_end().map(|(_, end)| end.next.state())
    }

    /// Shortens each message to at most [`LINE_MESSAGE_LIMIT`](crate::history::LINE_MESSAGE_LIMIT) bytes. Default: the
    /// fact has no message.
    fn shorten(&mut self) {}
}

/// Declares the facts of a subject. Each is a struct that implements [`Recorded`]; the expressions see its fields by
/// reference:
///
/// - `publishes "type" { data } with "field" = time, …;` lists the public events. A time is written in milliseconds, and left
///   out if there is none;
/// - `events EXPRESSION;` computes them instead;
/// - `ends ATTEMPT, OUTCOME, NEXT, DIGEST;` says which attempt it ended, and how;
/// - `then STATE;` gives the state after the change;
/// - `shortens EXPRESSION;` shortens its messages.
macro_rules! declare {
    ($(
        $(#[$about:meta])*
        pub struct $name:ident $fields:tt
        $(publishes $($kind:literal $data:tt $(with $key:literal = $time:ident)?),+;)?
        $(events $events:expr;)?
        $(ends $attempt:expr, $outcome:literal, $next:expr, $digest:expr;)?
        $(then $state:expr;)?
        $(shortens $shorten:expr;)?
    )*) => {$(
        crate::fact::declaration::fields! { $(#[$about])* $name $fields }

        #[allow(unused_variables)]
        impl crate::fact::declaration::Recorded for $name {
            fn public_events(&self) -> Vec<crate::fact::EventBody> {
                crate::fact::declaration::fields!(bind self $fields);
                $(vec![$(($kind, crate::fact::declaration::data!($data $(, $key = $time)?))),+])?
                $($events)?
            }

            $(fn attempt_end(&self) -> Option<(u32, crate::history::AttemptEnd)> {
                crate::fact::declaration::fields!(bind self $fields);
                let end = crate::history::AttemptEnd { outcome: $outcome, next: $next, digest: $digest };
                Some(($attempt, end))
            })?

            $(fn state_after(&self) -> Option<crate::state::StateName> {
                crate::fact::declaration::fields!(bind self $fields);
                Some($state)
            })?

            $(fn shorten(&mut self) {
                crate::fact::declaration::fields!(bind self $fields);
                $shorten;
            })?
        }
    )*};
}
pub(super) use declare;

/// Defines the struct of a fact, or binds its fields.
macro_rules! fields {
    (bind $this:ident { $($(#[$about:meta])* $field:ident: $type:ty,)* }) => {
        let Self { $($field,)* } = $this;
    };
    ($(#[$about:meta])* $name:ident { $($(#[$about_field:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $name {
            $($(#[$about_field])* pub $field: $type,)*
        }
    };
}
pub(super) use fields;

/// Returns the data of an event, with a time if there is one.
macro_rules! data {
    ($data:tt) => {
        serde_json::json!($data)
    };
    ($data:tt, $key:literal = $time:ident) => {
        crate::fact::events::with_time($key, *$time, serde_json::json!($data))
    };
}
pub(super) use data;
