//! The form of a webhook's configuration. Which addresses a URL may lead to is up to the server that delivers.

use super::{EVERY_TYPE, URL_LIMIT};
use crate::Refusal;
use crate::fact::EVENT_TYPES;

/// Checks the form of a URL. The error begins with a verb; it does not contain the URL, whose query may be secret.
pub fn check_url(url: &str) -> Result<(), String> {
    if url.len() > URL_LIMIT {
        return Err(format!("has {} bytes; at most {URL_LIMIT} are allowed", url.len()));
    }
    if url.contains('#') {
        return Err("has a fragment, which is never sent; leave it out".into());
    }
    match url.split_once("://") {
        None => Err("is not an absolute URL, such as https://example.com/hook".into()),
        Some((_, "")) => Err("has no host".into()),
        Some((scheme, _)) if ["https", "http"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) => {
            Ok(())
        }
        Some(_) => Err("must begin with https://".into()),
    }
}

/// Checks `types`: names of event types, or `*` alone for all. Returns them in order; all as an empty list.
pub fn check_types(mut types: Vec<String>) -> Result<Vec<String>, Refusal> {
    let refused = |detail: String| Err(Refusal::field("/types", detail));
    if types.is_empty() {
        return refused("is empty; name event types, or \"*\" alone for all".into());
    }
    if types == [EVERY_TYPE] {
        return Ok(Vec::new());
    }
    if let Some(unknown) = types.iter().find(|word| !EVENT_TYPES.contains(&word.as_str())) {
        let known = EVENT_TYPES.join(", ");
        return refused(format!("has {unknown:?}; there are {known}, or \"*\" alone for all"));
    }
    types.sort();
    types.dedup();
    Ok(types)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_without_the_form_of_one_is_refused() {
        assert!(check_url("https://example.com/hook?key=1").is_ok());
        assert!(check_url("http://127.0.0.1:9").is_ok());
        let long = format!("https://example.com/{}", "x".repeat(URL_LIMIT));
        for url in
            ["", "example.com", "/hook", "ftp://example.com/", "https://", "https://example.com/#x", &long]
        {
            assert!(check_url(url).is_err(), "{url}");
        }
        let types = |words: &[&str]| check_types(words.iter().map(|word| word.to_string()).collect());
        assert_eq!(types(&["*"]).expect("valid"), Vec::<String>::new());
        let expected = ["execution.completed", "execution.failed"];
        assert_eq!(
            types(&["execution.failed", "execution.completed", "execution.failed"]).expect("valid"),
            expected
        );
        assert!(types(&[]).is_err() && types(&["*", "execution.failed"]).is_err() && types(&["no"]).is_err());
    }
}
