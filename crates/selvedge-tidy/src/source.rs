//! Finds functions in Rust source: comments, strings and characters are masked, then braces are counted.

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// The line of `fn`, from 1.
    pub line: usize,
    /// The number of lines from `fn` to the closing brace.
    pub lines: usize,
}

/// Returns the source with blanks for the content of comments, strings and characters. Lines and columns stay.
pub fn masked(source: &str) -> String {
    let text: Vec<char> = source.chars().collect();
    let mut masked = text.clone();
    let mut at = 0;
    while at < text.len() {
        let end = end_of_literal(&text, at);
        for place in &mut masked[at..end] {
            if *place != '\n' {
                *place = ' ';
            }
        }
        at = end.max(at + 1);
    }
    masked.into_iter().collect()
}

/// Returns the end of the comment, string or character that begins here; the same place if none does.
fn end_of_literal(text: &[char], at: usize) -> usize {
    let next = |offset: usize| text.get(at + offset).copied();
    match (text[at], next(1)) {
        ('/', Some('/')) => find(text, at, |rest| rest[0] == '\n'),
        ('/', Some('*')) => end_of_comment(text, at),
        ('"', _) => end_of_string(text, at + 1, '"'),
        ('r', _) if !is_in_word(text, at) => end_of_raw_string(text, at),
        ('\'', Some('\\')) => end_of_string(text, at + 1, '\''),
        // Otherwise it is a lifetime.
        ('\'', Some(_)) if next(2) == Some('\'') => at + 3,
        _ => at,
    }
}

/// Reports whether the character before belongs to the same word. The letters of `br""` and `cr""` do not.
fn is_in_word(text: &[char], at: usize) -> bool {
    let is_word = |at: usize| text[at].is_alphanumeric() || text[at] == '_';
    let before = at.checked_sub(1);
    let is_prefix = |before: usize| "bc".contains(text[before]) && (before == 0 || !is_word(before - 1));
    before.is_some_and(|before| is_word(before) && !is_prefix(before))
}

/// Returns the first place from which `is_end` holds, or the end of the text.
fn find(text: &[char], from: usize, is_end: impl Fn(&[char]) -> bool) -> usize {
    (from..text.len()).find(|at| is_end(&text[*at..])).unwrap_or(text.len())
}

/// Returns the end of a block comment. Block comments nest.
fn end_of_comment(text: &[char], begin: usize) -> usize {
    let (mut depth, mut at) = (0, begin);
    while at < text.len() {
        match (text[at], text.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

fn end_of_string(text: &[char], from: usize, quote: char) -> usize {
    let mut at = from;
    while at < text.len() && text[at] != quote {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// Returns the end of a raw string; its begin if the word is another one, such as `r#type`.
fn end_of_raw_string(text: &[char], begin: usize) -> usize {
    let hashes = text[begin + 1..].iter().take_while(|one| **one == '#').count();
    let open = begin + 1 + hashes;
    if text.get(open) != Some(&'"') {
        return begin;
    }
    let is_end = |rest: &[char]| {
        rest[0] == '"' && rest.len() > hashes && rest[1..=hashes].iter().all(|one| *one == '#')
    };
    (find(text, open + 1, is_end) + 1 + hashes).min(text.len())
}

/// Returns the functions of a source, also nested ones, in their order.
pub fn functions(source: &str) -> Vec<Function> {
    let masked = masked(source);
    let mut found = Vec::new();
    for (at, _) in masked.match_indices("fn ") {
        let is_word = |one: char| one.is_alphanumeric() || one == '_';
        let name: String = masked[at + 3..].chars().take_while(|one| is_word(*one)).collect();
        if name.is_empty() || masked[..at].chars().next_back().is_some_and(is_word) {
            continue;
        }
        if let Some(end) = end_of_body(&masked[at..]) {
            let line = masked[..at].matches('\n').count() + 1;
            let lines = masked[at..at + end].matches('\n').count() + 1;
            found.push(Function { name, line, lines });
        }
    }
    found
}

/// Returns the place of the brace that closes the body of a function; none if it has no body.
fn end_of_body(function: &str) -> Option<usize> {
    let (mut brackets, mut braces) = (0, 0);
    for (at, character) in function.char_indices() {
        match character {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if brackets == 0 && braces == 0 => return None,
            '{' if brackets == 0 || braces > 0 => braces += 1,
            '}' if braces > 0 => {
                braces -= 1;
                if braces == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(source: &str) -> Vec<(String, usize, usize)> {
        functions(source).into_iter().map(|one| (one.name, one.line, one.lines)).collect()
    }

    #[test]
    fn braces_in_strings_characters_and_comments_do_not_count() {
        let source = r####"
fn a() {
    let s = "}\"}"; // }
    /* } /* } */ } */
    let c = ['}', '\'', '"', '\\', '\u{7d}'];
    let r = r#"}"}"#; let b = br"}\"; let n = b"}";
}
fn b<'a>(x: &'a str) -> [u8; { 1 }] { [0] }
"####;
        assert_eq!(names(source), [("a".to_owned(), 2, 6), ("b".to_owned(), 8, 1)]);
    }

    #[test]
    fn nested_functions_and_closures_belong_to_the_function_around_them() {
        let source = "fn a() {\n    fn b() {\n    }\n    let c = |x| { x };\n}\n";
        assert_eq!(names(source), [("a".to_owned(), 1, 5), ("b".to_owned(), 2, 2)]);
    }

    #[test]
    fn signatures_without_a_body_and_types_of_functions_are_no_functions() {
        let source = "trait T {\n    fn a(x: fn (u8) -> u8);\n    fn b() {}\n}\ntype F = fn (u8);\n";
        assert_eq!(names(source), [("b".to_owned(), 3, 1)]);
    }

    #[test]
    fn lifetimes_and_raw_words_open_no_literal() {
        let source = "fn r#type<'a>(x: &'a u8) -> &'a u8 {\n    for_r(x)\n}\nfn after() {}\n";
        assert_eq!(names(source)[1..], [("after".to_owned(), 4, 1)]);
        assert_eq!(masked("xr\"a\" r\"a\" 'b' 'static"), format!("xr{}'static", " ".repeat(13)));
    }

    #[test]
    fn masked_text_keeps_its_lines_and_columns() {
        let source = "let é = \"ü\nö\"; // ß\nx";
        let masked = masked(source);
        assert_eq!(masked, "let é =   \n  ;     \nx");
        assert_eq!(masked.chars().count(), source.chars().count());
    }
}
