//! Statements: one file per noun and verb, `sql/<noun>/<verb>.sql`. The modules that send them define them.
//!
//! A file is a template. `{columns}`, `{flow}`, `{gate}` and the like stand for lists of columns that several
//! statements share, as their module says; `{waiting}`, `{flow_running}`, `{gate_budget}` and the like for the stored
//! codes of states and kinds. Codes are filled in as literals and not passed as parameters: only a literal lets the
//! planner prove that the predicate of a partial index holds.

use crate::{settled, store_clock};
use selvedge_core::flow::FlowState;
use selvedge_core::gate::GateKind;
use selvedge_core::state::StateName;
use selvedge_core::webhook::DeliveryState;
use selvedge_store::FlowDue;
use std::ops::Deref;
use std::sync::{LazyLock, OnceLock};

/// The placeholders that all modules share, with their texts: the time, the writers, and the codes.
static SHARED: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let mut placeholders = Vec::new();
    let mut add = |name: &str, text: &str| placeholders.push((format!("{{{name}}}"), text.to_owned()));
    for (name, text) in store_clock::PLACEHOLDERS.into_iter().chain(settled::PLACEHOLDERS) {
        add(name, text);
    }
    for state in StateName::ALL {
        add(state.as_str(), &state.code().to_string());
    }
    for state in FlowState::ALL {
        add(&format!("flow_{}", state.as_str()), &state.code().to_string());
    }
    for due in FlowDue::ALL {
        let name = match due {
            FlowDue::Settle => "flow_settle",
            FlowDue::Delete => "flow_delete",
        };
        add(name, &due.code().to_string());
    }
    for state in DeliveryState::ALL {
        add(&format!("delivery_{}", state.as_str()), &state.code().to_string());
    }
    for kind in GateKind::ALL {
        add(&format!("gate_{}", kind.as_str()), &kind.code().to_string());
    }
    placeholders
});

/// A statement: a file of `sql/`, whose placeholders are replaced at first use.
pub struct Statement {
    /// The name of the constant.
    #[cfg(test)]
    pub name: &'static str,
    /// The path of the file: `noun/verb`.
    pub path: &'static str,
    /// The text of the file.
    pub template: &'static str,
    /// The placeholders of the module that defines the statement, in the order in which they are replaced.
    pub placeholders: fn() -> Vec<(&'static str, String)>,
    /// The text with all placeholders replaced.
    pub text: OnceLock<String>,
}

impl Deref for Statement {
    type Target = str;

    fn deref(&self) -> &str {
        self.text.get_or_init(|| {
            let own = (self.placeholders)().into_iter();
            let own = own.map(|(name, value)| (format!("{{{name}}}"), value));
            let replace = |text: String, (name, value): &(String, String)| text.replace(name, value);
            let text = own.fold(self.template.to_owned(), |text, placeholder| replace(text, &placeholder));
            SHARED.iter().fold(text, replace)
        })
    }
}

/// Defines the statements of a module, with the placeholders that stand for its columns and limits.
macro_rules! statements {
    ($($name:ident = $path:literal;)*) => {
        $crate::sql::statements! { with {} $($name = $path;)* }
    };
    (with { $($key:ident: $value:expr,)* } $($name:ident = $path:literal;)*) => {
        fn placeholders() -> Vec<(&'static str, String)> {
            vec![$((stringify!($key), $value.to_string())),*]
        }

        $(
            #[doc = concat!("`sql/", $path, ".sql`")]
            pub static $name: $crate::sql::Statement = $crate::sql::Statement {
                #[cfg(test)]
                name: stringify!($name),
                path: $path,
                template: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql/", $path, ".sql")),
                placeholders,
                text: std::sync::OnceLock::new(),
            };
        )*

        /// The statements of this module.
        pub static STATEMENTS: &[&$crate::sql::Statement] = &[$(&$name),*];
    };
}
pub(crate) use statements;

#[cfg(test)]
mod tests {
    use crate::kinds::log::window::{CREATE_DAY, DROP_DAY};
    use crate::kinds::statements;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Every template, including those that are filled where they run.
    fn files() -> Vec<(&'static str, &'static str)> {
        let statements = statements().into_iter();
        let mut files: Vec<_> = statements.map(|statement| (statement.path, statement.template)).collect();
        files.extend([("log/create_day", CREATE_DAY), ("log/drop_day", DROP_DAY)]);
        files
    }

    /// The words of a statement without its comments.
    fn words(text: &str) -> Vec<String> {
        let code: Vec<&str> = text.lines().filter_map(|line| line.split("--").next()).collect();
        code.join(" ").replace(['(', ')', ','], " ").split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn no_statement_contains_an_unfilled_placeholder() {
        for statement in statements() {
            let (file, text) = (statement.path, &**statement);
            for part in text.split('{').skip(1) {
                let inside = part.split('}').next().unwrap_or_default();
                let is_name =
                    !inside.is_empty() && inside.chars().all(|c| c.is_ascii_lowercase() || c == '_');
                assert!(!is_name, "{file}: {{{inside}}}");
            }
        }
    }

    #[test]
    fn no_statement_compares_a_state_or_a_kind_with_a_bare_number() {
        for (file, text) in files() {
            let words = words(text);
            for (index, word) in words.iter().enumerate() {
                let column = word.rsplit('.').next().unwrap_or_default();
                if !["state", "kind", "due_kind"].contains(&column) {
                    continue;
                }
                let operators = ["=", "<>", "<", ">", "<=", ">=", "in", "not"];
                let mut after = words[index + 1..].iter().peekable();
                let compares = after.next_if(|word| operators.contains(&word.as_str())).is_some();
                let value = after.find(|word| !operators.contains(&word.as_str()));
                let is_number = value.is_some_and(|value| value.starts_with(|c: char| c.is_ascii_digit()));
                assert!(!(compares && is_number), "{file}: {word} {value:?}");
            }
        }
    }

    #[test]
    fn every_file_is_a_statement_and_names_its_constant() {
        for statement in statements() {
            let (constant, path) = (statement.name.to_lowercase(), statement.path.replace('/', "_"));
            let verb = statement.path.rsplit('/').next().unwrap_or_default();
            assert!(path.ends_with(&constant) && constant.ends_with(verb), "{constant} of {path}");
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sql");
        let mut found = BTreeSet::new();
        for noun in std::fs::read_dir(&folder).expect("src/sql is a folder") {
            for verb in std::fs::read_dir(noun.expect("a noun").path()).expect("a noun is a folder") {
                let path = verb.expect("a verb").path().with_extension("");
                found.insert(path.strip_prefix(&folder).expect("it is inside").display().to_string());
            }
        }
        assert_eq!(found, files().iter().map(|(file, _)| file.to_string()).collect());
    }

    #[test]
    fn every_statement_says_what_it_locks_and_which_index_it_expects() {
        for (file, text) in files() {
            let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("-- ")).collect();
            let header = header.join("\n");
            assert!(header.contains("Locks: "), "{file}:\n{header}");
            assert!(header.contains("Index: "), "{file}:\n{header}");
        }
    }
}
