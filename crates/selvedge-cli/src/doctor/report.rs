//! The report of findings: for people grouped by subject, for programs one JSON object per finding.

use crate::failure::Failure;
use crate::terminal::{Output, dim, heading};
use console::{measure_text_width, style};
use selvedge_store::{Finding, Level};
use serde_json::json;

/// The findings about one store or server.
#[derive(Debug)]
pub struct Section {
    /// The store or the server.
    pub subject: String,
    /// The findings, in the order of the checks.
    pub findings: Vec<Finding>,
}

/// Prints all findings.
pub fn print(out: &Output, sections: &[Section]) -> Result<(), Failure> {
    if out.json {
        return sections.iter().try_for_each(|section| print_json(out, section));
    }
    let width = |finding: &Finding| measure_text_width(finding.check);
    let checks = sections.iter().flat_map(|section| &section.findings).map(width).max().unwrap_or_default();
    for (index, section) in sections.iter().enumerate() {
        if index > 0 {
            out.line("")?;
        }
        out.line(heading(&section.subject))?;
        for finding in &section.findings {
            let level = format!("{:<7}", finding.level.as_str());
            let level = match finding.level {
                Level::Ok => style(level).green(),
                Level::Notice => style(level).cyan(),
                Level::Warning => style(level).yellow(),
                Level::Error => style(level).red(),
            };
            out.line(format!("  {level}  {:<checks$}  {}", finding.check, finding.message))?;
            if let Some(remedy) = &finding.remedy {
                out.line(format!("  {:<7}  {:<checks$}  {}", "", "", dim(format!("→ {remedy}"))))?;
            }
        }
    }
    out.line("")?;
    out.line(summary(sections))
}

fn print_json(out: &Output, section: &Section) -> Result<(), Failure> {
    section.findings.iter().try_for_each(|finding| {
        let object = json!({
            "subject": section.subject,
            "check": finding.check,
            "level": finding.level.as_str(),
            "message": finding.message,
            "remedy": finding.remedy,
        });
        out.line(object.to_string())
    })
}

/// Returns the number of findings of each level.
fn summary(sections: &[Section]) -> String {
    let levels = [Level::Error, Level::Warning, Level::Notice, Level::Ok];
    let counts = levels.map(|level| {
        let findings = sections.iter().flat_map(|section| &section.findings);
        (level, findings.filter(|finding| finding.level == level).count())
    });
    let named = counts.iter().filter(|(_, count)| *count > 0);
    named.map(|(level, count)| format!("{count} {level}")).collect::<Vec<String>>().join(", ")
}
