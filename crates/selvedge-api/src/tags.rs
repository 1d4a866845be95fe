//! The groups of operations.

pub const BULK_JOBS: &str = "Bulk jobs";
pub const ADMINISTRATION: &str = "Administration";

/// The groups of operations with their descriptions, in the order of the reference.
pub const ALL: [(&str, &str); 15] = [
    ("Executions", "Submit work, read it, and wait for its result."),
    ("Operator actions", "Change executions: cancel, replay, reschedule and more, alone or in bulk."),
    (BULK_JOBS, "Act on any number of executions in the background."),
    ("Flows", "Submit and grow graphs of executions, and read them."),
    ("Inbox", "See and repeat submissions from SQL that were refused."),
    ("Workers", "Claim executions under leases, renew the leases, and report."),
    ("Signals and waitpoints", "Resume suspended executions, by name or with a token."),
    ("Events", "Read the log of everything that happened, as pages or as a live feed."),
    ("Streams", "Read the frames that attempts append while they run."),
    ("Limits", "Lanes, quotas and budgets."),
    ("Schedules", "Submit executions and flows at chosen times."),
    ("Webhooks", "Send events to a URL, and see what became of them."),
    (ADMINISTRATION, "Namespaces, API keys, and the keys of tokens."),
    ("Server", "Health, metrics, and this document."),
    ("Pages", "Web pages for people. A browser gets problems as pages, too."),
];
