//! Sizes on the command line: a whole number of bytes, with an optional unit, such as `65536`, `64KiB` or `256MiB`.

/// The units and their bytes.
const UNITS: [(&str, u64); 3] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Returns a parser of sizes within bounds, in bytes. The error says what is allowed.
pub fn between(
    least: u64,
    largest: u64,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let unit = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)));
        let (digits, unit) = unit.unwrap_or((text, 1));
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("write a whole number of bytes, for example 65536, 64KiB or 256MiB".into());
        }
        let bytes = digits.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(unit);
        match (least..=largest).contains(&bytes) {
            true => Ok(bytes),
            false => Err(format!("must lie between {} and {}", written(least), written(largest))),
        }
    }
}

/// Writes a size with the largest unit that divides it.
fn written(bytes: u64) -> String {
    let unit = UNITS.iter().rev().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes} bytes"), |(name, unit)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_with_an_optional_unit() {
        let parse = between(1024, 1 << 30);
        for (text, bytes) in [("1024", 1024), ("64KiB", 65_536), ("1GiB", 1 << 30)] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "1023", "2GiB", "64KB", "-1", "1.5MiB", "99999999999999999999GiB"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("1"), Err("must lie between 1KiB and 1GiB".into()));
        assert_eq!(written(1025), "1025 bytes");
    }
}
