//! The settings of the program that runs the server, for the page `/settings`. The server only shows them.

/// A setting: its value and where the value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The heading under which it stands; empty for general settings.
    pub group: String,
    /// The name, that of the flag without `--`.
    pub name: String,
    /// The value without secrets; none if it is not set.
    pub value: Option<String>,
    /// The source: the flag, the variable, the file or the default.
    pub source: String,
}
