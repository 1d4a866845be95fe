//! Text in pictures: escaped for XML, shortened to fit a box, and measured without a font.

/// The width to which a name is shortened, in ems: about 24 characters.
pub const NAME_EMS_MAX: f64 = 14.8;

/// Escapes text for an XML element or a quoted attribute. Characters that XML does not allow become U+FFFD.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' => escaped.push('\n'),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other if other.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Escapes text and isolates its direction, so that right-to-left text and direction marks do not affect the text
/// around it.
pub fn isolated(text: &str) -> String {
    format!("\u{2068}{}\u{2069}", escape(text))
}

/// Shortens text to at most `ems`. The middle is left out, because the names of one flow often differ at their ends.
pub fn shortened(text: &str, ems: f64) -> String {
    if measure(text) <= ems {
        return text.to_owned();
    }
    let room = ems - width('…');
    let head = fitting(text.chars(), room * 0.62);
    let tail = fitting(text.chars().rev(), room - measure(&head));
    let tail: String = tail.chars().rev().skip_while(|character| width(*character) == 0.0).collect();
    format!("{}…{tail}", head.trim_end_matches('\u{200d}'))
}

fn fitting(characters: impl Iterator<Item = char>, room: f64) -> String {
    let mut used = 0.0;
    characters
        .take_while(|character| {
            used += width(*character);
            used <= room
        })
        .collect()
}

/// Estimates the width of text in ems. Tends to overestimate.
pub fn measure(text: &str) -> f64 {
    text.chars().map(width).sum()
}

fn width(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | '(' | ')' | '[' | ']' => {
            0.38
        }
        '-' | 'f' | 'r' | 't' | '/' | '\\' | '"' => 0.48,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 1.0,
        'A'..='Z' => 0.74,
        // Combining marks, joiners and direction marks.
        '\u{0300}'..='\u{036f}' | '\u{0591}'..='\u{05bd}' | '\u{064b}'..='\u{065f}' => 0.0,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' => 0.0,
        '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}' => 0.0,
        // Scripts with square characters, and emoji.
        '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' => 1.05,
        '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}' => 1.05,
        '\u{1f000}'..='\u{3ffff}' => 1.3,
        _ => 0.6,
    }
}
