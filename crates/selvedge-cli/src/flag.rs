//! The environment variable of a flag: a word that means yes or no. Any other word is an error, because a setting that
//! was mistyped must not be taken for its opposite.

/// The accepted words, in pairs of yes and no.
const WORDS: [(&str, &str); 4] = [("true", "false"), ("1", "0"), ("yes", "no"), ("on", "off")];

/// Returns the parser of `variable`. An empty variable counts as false, like one that is not set.
pub fn parser(
    variable: &'static str,
) -> impl Fn(&str) -> Result<bool, String> + Clone + Send + Sync + 'static {
    move |text| {
        let word = text.trim().to_ascii_lowercase();
        match WORDS.iter().find(|(yes, no)| word == *yes || word == *no) {
            Some((yes, _)) => Ok(word == *yes),
            None if word.is_empty() => Ok(false),
            None => Err(format!(
                "set {variable} to true or false (1 or 0, yes or no, on or off), or do not set it"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_set_by_a_word_for_yes_and_every_other_word_is_an_error() {
        let parse = parser("SELVEDGE_POLL");
        for word in ["true", "TRUE", "1", "yes", " on "] {
            assert_eq!(parse(word), Ok(true), "{word}");
        }
        for word in ["false", "0", "No", "off", ""] {
            assert_eq!(parse(word), Ok(false), "{word}");
        }
        for word in ["maybe", "2", "y", "truee"] {
            assert!(
                parse(word).is_err_and(|error| error.contains("set SELVEDGE_POLL to true or false")),
                "{word}"
            );
        }
    }
}
