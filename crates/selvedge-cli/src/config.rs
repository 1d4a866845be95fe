//! The settings file, and the whole of the settings with their sources.
//!
//! A setting has one declaration: the flag. The file is a TOML table of names and values, with the names of the flags without
//! `--`. Its values become the defaults of the flags, so they pass the same checks, and a flag or a variable comes before the
//! file, the file before the default.

use crate::failure::Failure;
use clap::builder::OsStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use selvedge::Address;
use selvedge_server::Setting;
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Flags that are no settings.
const NO_SETTINGS: [&str; 4] = ["config", "print_config", "help", "version"];

/// A command line with the settings of its file.
pub struct Parsed {
    /// The values of the command line.
    pub matches: ArgMatches,
    command: Command,
    file: Option<SettingsFile>,
}

/// Parses the command line, the environment and the settings file that they name. Prints help and exits if asked to.
pub fn parse(command: Command, arguments: Vec<OsString>) -> Result<Parsed, Failure> {
    let matches = matches(&command, &arguments)?;
    let path = matches.subcommand().and_then(|(name, matches)| {
        let path = matches.try_get_one::<PathBuf>("config").ok().flatten()?;
        Some((name.to_owned(), path.clone()))
    });
    let Some((subcommand, path)) = path else { return Ok(Parsed { matches, command, file: None }) };
    let file = SettingsFile::read(&path)?;
    let with_file = file.as_defaults(command.clone(), &subcommand)?;
    let matches = self::matches(&with_file, &arguments)
        .map_err(|failure| Failure::Usage(format!("the settings file {}: {failure}", path.display())))?;
    Ok(Parsed { matches, command, file: Some(file) })
}

/// Parses the command line and the environment. An invalid value is a failure of one line that names its sources.
fn matches(command: &Command, arguments: &[OsString]) -> Result<ArgMatches, Failure> {
    command.clone().try_get_matches_from(arguments).map_err(|error| {
        let text = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.as_str()),
            _ => None,
        };
        match (error.kind(), text(ContextKind::InvalidArg), text(ContextKind::InvalidValue), error.source()) {
            (ErrorKind::ValueValidation, Some(flag), Some(value), Some(cause)) => {
                let flag = flag.split_whitespace().next().unwrap_or(flag);
                let name = match variable(command, flag.trim_start_matches('-')) {
                    Some(variable) => format!("{flag} or {variable}"),
                    None => flag.to_owned(),
                };
                Failure::Usage(format!("{name} is {value:?}: {cause}"))
            }
            _ => error.exit(),
        }
    })
}

/// Returns the variable of the flag with this name, in whichever subcommand it is.
fn variable(command: &Command, name: &str) -> Option<String> {
    let mut own = command.get_arguments().filter(|argument| argument.get_long() == Some(name));
    let own = own.find_map(|argument| Some(argument.get_env()?.to_string_lossy().into_owned()));
    own.or_else(|| command.get_subcommands().find_map(|sub| variable(sub, name)))
}

/// The settings of a file, by name.
struct SettingsFile {
    path: PathBuf,
    /// The values as flags take them.
    values: BTreeMap<String, Vec<String>>,
}

impl SettingsFile {
    fn read(path: &Path) -> Result<SettingsFile, Failure> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::Failed(format!("cannot read the settings file {shown}: {error}; check --config"))
        })?;
        let table: toml::Table = toml::from_str(&text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            Failure::Usage(format!(
                "line {line} of the settings file {shown} is not TOML: {}",
                error.message()
            ))
        })?;
        let mut values = BTreeMap::new();
        for (name, value) in table {
            let written = match value {
                toml::Value::Array(items) => items.iter().map(scalar).collect::<Option<Vec<String>>>(),
                one => scalar(&one).map(|one| vec![one]),
            };
            let written = written.ok_or_else(|| {
                Failure::Usage(format!(
                    "the settings file {shown} sets {name} to something that is no text, number or true or false"
                ))
            })?;
            values.insert(name, written);
        }
        Ok(SettingsFile { path: path.to_owned(), values })
    }

    /// Makes the values of the file the defaults of the flags of a subcommand. An unknown name is refused.
    fn as_defaults(&self, mut command: Command, subcommand: &str) -> Result<Command, Failure> {
        let known: Vec<(String, bool)> = arguments(&command, subcommand)
            .filter_map(|(argument, is_global)| Some((argument.get_long()?.to_owned(), is_global)))
            .collect();
        for (name, values) in &self.values {
            let Some((_, is_global)) = known.iter().find(|(known, _)| known == name) else {
                let nearest = known.iter().min_by_key(|(known, _)| distance(known, name));
                let nearest = nearest.map_or("", |(known, _)| known);
                return Err(Failure::Usage(format!(
                    "the settings file {} sets {name}, which is no setting; did you mean {nearest}? selvedge {subcommand} \
                     --help lists all",
                    self.path.display()
                )));
            };
            let id = name.replace('-', "_");
            let defaults: Vec<OsStr> = values.iter().map(OsStr::from).collect();
            let set = |argument: Arg| argument.default_values(defaults);
            command = match is_global {
                true => command.mut_arg(id, set),
                false => command.mut_subcommand(subcommand, |sub| sub.mut_arg(id, set)),
            };
        }
        Ok(command)
    }
}

/// Returns a value as a flag takes it. None for a table or an array.
fn scalar(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(answer) => Some(answer.to_string()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => None,
    }
}

/// Returns the settings of a subcommand, those without a heading first, and whether each belongs to all subcommands.
pub fn arguments<'a>(command: &'a Command, subcommand: &str) -> impl Iterator<Item = (&'a Arg, bool)> {
    let own: Vec<&Arg> =
        command.find_subcommand(subcommand).into_iter().flat_map(Command::get_arguments).collect();
    let (headed, plain): (Vec<&Arg>, Vec<&Arg>) =
        own.into_iter().partition(|argument| argument.get_help_heading().is_some());
    let global = command.get_arguments().filter(|argument| argument.is_global_set());
    let plain = plain.into_iter().map(|argument| (argument, false));
    plain
        .chain(global.map(|argument| (argument, true)))
        .chain(headed.into_iter().map(|argument| (argument, false)))
        .filter(|(argument, _)| !NO_SETTINGS.contains(&argument.get_id().as_str()))
}

/// Returns the number of letters to change, add or remove to turn one name into the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for column in 0..other.len() {
            let changed = diagonal + usize::from(letter != other[column]);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

impl Parsed {
    /// Returns all settings, with the source of each. Secrets are masked.
    pub fn settings(&self) -> Vec<Setting> {
        self.shown().into_iter().map(|(setting, _)| setting).collect()
    }

    /// Returns all settings as a settings file, with the source of each. Secrets are masked, and their lines are comments.
    pub fn print(&self) -> String {
        let subcommand = self.matches.subcommand_name().unwrap_or_default();
        let mut text = format!("# The settings of selvedge {subcommand}, each with its source.\n");
        let mut heading = String::new();
        for (Setting { group, name, value, source }, is_masked) in self.shown() {
            if group != heading {
                let _ = writeln!(text, "\n# {group}");
                heading = group;
            }
            let comment = if is_masked { "# " } else { "" };
            let _ = match value {
                Some(value) => writeln!(text, "{comment}{name} = {value}  # {source}"),
                None => writeln!(text, "# {name} is not set"),
            };
        }
        text
    }

    /// Returns all settings, and whether the value of each is masked.
    fn shown(&self) -> Vec<(Setting, bool)> {
        let Some((subcommand, matches)) = self.matches.subcommand() else { return Vec::new() };
        let shown = arguments(&self.command, subcommand).filter_map(|(argument, _)| {
            let name = argument.get_long()?;
            let raw = matches.try_get_raw(argument.get_id().as_str()).ok().flatten();
            let values: Vec<String> =
                raw.into_iter().flatten().map(|value| value.to_string_lossy().into_owned()).collect();
            let shown: Vec<String> = values.iter().map(|value| masked(argument, value)).collect();
            let setting = Setting {
                group: argument.get_help_heading().unwrap_or_default().to_owned(),
                name: name.to_owned(),
                value: (!shown.is_empty()).then(|| written(argument, &shown)),
                source: self.source(matches, argument, name),
            };
            Some((setting, shown != values))
        });
        shown.collect()
    }

    /// Names the source of a value.
    fn source(&self, matches: &ArgMatches, argument: &Arg, name: &str) -> String {
        match matches.value_source(argument.get_id().as_str()) {
            Some(ValueSource::CommandLine) => format!("flag --{name}"),
            Some(ValueSource::EnvVariable) => {
                let variable = argument.get_env().map(|name| name.to_string_lossy()).unwrap_or_default();
                format!("environment {variable}")
            }
            _ => match &self.file {
                Some(file) if file.values.contains_key(name) => format!("file {}", file.path.display()),
                _ => "default".into(),
            },
        }
    }
}

/// Returns a value without secrets: flags whose variables help does not show may contain some.
fn masked(argument: &Arg, value: &str) -> String {
    match (argument.is_hide_env_values_set(), value.parse::<Address>()) {
        (false, _) => value.to_owned(),
        (true, Ok(address)) => address.to_string(),
        (true, Err(_)) => "***".into(),
    }
}

/// Writes the values of a setting in TOML.
fn written(argument: &Arg, values: &[String]) -> String {
    // TOML knows no +5 and no 007, and a name such as 007 keeps its zeros.
    let is_number = |value: &str| value.parse::<i64>().is_ok_and(|number| number.to_string() == value);
    // Text of JSON is text of TOML.
    let quoted = |value: &String| match argument.get_action() {
        ArgAction::SetTrue => value.clone(),
        _ if is_number(value) => value.clone(),
        _ => serde_json::Value::from(value.as_str()).to_string(),
    };
    match (argument.get_action(), values) {
        (ArgAction::Append, values) => {
            let values: Vec<String> = values.iter().map(quoted).collect();
            format!("[{}]", values.join(", "))
        }
        (_, values) => values.last().map(quoted).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_in_its_usual_form_is_written_without_quotes() {
        let argument = Arg::new("a").long("a");
        for (value, expected) in [
            ("7", "7"),
            ("-7", "-7"),
            ("+7", "\"+7\""),
            ("007", "\"007\""),
            ("7s", "\"7s\""),
            ("-0", "\"-0\""),
        ] {
            assert_eq!(written(&argument, &[value.to_owned()]), expected);
        }
    }

    #[test]
    fn the_distance_of_names_counts_the_letters_that_differ() {
        for (one, other, expected) in
            [("", "abc", 3), ("grace", "grace", 0), ("listen", "lisen", 1), ("a", "b", 1)]
        {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
