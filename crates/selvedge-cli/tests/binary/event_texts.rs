//! Texts of workers and operators with the character U+0000, which Postgres refuses in `jsonb`: the views show U+FFFD instead, for new
//! events, for entries of the log that earlier builds wrote, and for rows that earlier builds wrote for the views.

use crate::event_views::{Views, call, compare, start};
use crate::support::{Postgres, Sqlite, claim, on_each_store, submit};
use rusqlite::Connection;
use serde_json::{Value, json};

on_each_store!(
    texts_with_the_character_zero_do_not_fail_the_event_views,
    rows_of_earlier_builds_with_the_character_zero_are_repaired,
);

/// A store whose rows are changed to what an earlier build stored.
trait Earlier: Views {
    /// Runs statements, while no server runs.
    fn run(&self, statements: &str);

    /// Stores U+0000 for the `~` of `old~` in the log and the histories, whose encoding has the texts as they are.
    fn age_log(&self);

    /// Stores U+0000 for U+FFFD in the rows of the views.
    fn age_views(&self);

    /// Repairs the rows as the migration does.
    fn repair(&self);
}

impl Earlier for Sqlite {
    fn run(&self, statements: &str) {
        Connection::open(self.database())
            .expect("the file opens")
            .execute_batch(statements)
            .expect(statements);
    }

    fn age_log(&self) {
        for (table, column) in [("log", "body"), ("executions", "history")] {
            self.run(&format!(
                "update {table} set {column} = unhex(replace(hex({column}), '6F6C647E', '6F6C6400'))"
            ));
        }
    }

    fn age_views(&self) {
        self.run(
            "update projected_events set data = replace(data, char(65533), '\\u0000');
             update executions set detail = replace(detail, char(65533), '\\u0000');
             update projected_attempts set error_message = replace(error_message, char(65533), char(0))",
        );
    }

    fn repair(&self) {
        self.run(include_str!("../../../selvedge-sqlite/src/migrations/0027_event_texts.sql"));
    }
}

impl Earlier for Postgres {
    fn run(&self, statements: &str) {
        Postgres::run(self, &format!("set search_path to selvedge, pg_catalog; {statements}"));
    }

    fn age_log(&self) {
        for (table, column) in [("log", "body"), ("executions", "history")] {
            Earlier::run(
                self,
                &format!(
                    "update {table}
                     set {column} = decode(replace(encode({column}, 'hex'), '6f6c647e', '6f6c6400'), 'hex')"
                ),
            );
        }
    }

    fn age_views(&self) {
        // The text of the attempts cannot have the character.
        Earlier::run(
            self,
            "update projected_events set data = replace(data::text, chr(65533), chr(92) || 'u0000')::json;
             update executions set detail = replace(detail, chr(65533), chr(92) || 'u0000')",
        );
    }

    fn repair(&self) {
        let migrations = [
            include_str!("../../../selvedge-postgres/src/migrations/0021_ended_waits.sql"),
            include_str!("../../../selvedge-postgres/src/migrations/0022_event_texts.sql"),
        ];
        for standard in ["on", "off"] {
            let setting = format!("set standard_conforming_strings = {standard};");
            Earlier::run(self, &format!("{setting} {}", migrations.join(";")));
        }
    }
}

/// Reports progress of an execution and fails it, with texts that begin with this word and have this character.
fn progress_and_fail(url: &str, word: &str, character: char) {
    submit(url, json!({"kind": "fails", "retry": {"max_retries": 0}}));
    let claim = claim(url, "w", 1, 0).remove(0);
    let report = |mut op: Value| {
        op["execution"] = claim["execution"]["id"].clone();
        op["attempt"] = claim["attempt"].clone();
        op["lease_id"] = claim["lease"]["id"].clone();
        op["epoch"] = claim["lease"]["epoch"].clone();
        let reply = call(url, "/workers/w/report", json!({"ops": [op]}));
        assert_eq!(reply["results"][0]["ok"], true, "{reply}");
    };
    report(json!({"op": "progress", "message": format!("{word}{character}half")}));
    // Backslashes and a `u0000` that are part of the text stay.
    let message = format!("{word}{character}x \\u0000 \\{character}");
    report(json!({"op": "fail", "message": message, "class": "permanent"}));
}

/// Returns the error messages of the attempts, and the messages of the progress.
fn shown(place: &impl Views) -> (Vec<Value>, Vec<Value>) {
    let data = place.rows("select {json}('data', {jsonb}) from {schema}v1_events order by cursor");
    // A `u0000` after two backslashes is part of the text.
    let has_zero = |row: &Value| row.to_string().replace("\\\\", "").contains("\\u0000");
    assert!(!data.iter().any(has_zero), "{data:?}");
    let progress = data.iter().map(|row| row["data"]["message"].clone()).filter(Value::is_string).collect();
    let mut messages = place.attempts();
    messages.iter_mut().for_each(|row| *row = row["error_message"].take());
    messages.retain(Value::is_string);
    (messages, progress)
}

fn texts_with_the_character_zero_do_not_fail_the_event_views(place: &impl Earlier) {
    let server = start(place, false, &[]);
    progress_and_fail(&server.url, "old", '~');
    server.kill();
    place.age_log();
    let server = start(place, true, &[]);
    progress_and_fail(&server.url, "new", '\0');
    compare(place, &server.url);
    let (messages, progress) = shown(place);
    assert_eq!(messages, ["old\u{fffd}x \\u0000 \\~", "new\u{fffd}x \\u0000 \\\u{fffd}"]);
    assert_eq!(progress, ["old\u{fffd}half", "new\u{fffd}half"]);
}

fn rows_of_earlier_builds_with_the_character_zero_are_repaired(place: &impl Earlier) {
    let server = start(place, true, &[]);
    progress_and_fail(&server.url, "old", '\0');
    compare(place, &server.url);
    let expected = shown(place);
    server.kill();
    place.age_views();
    let events = place.events();
    assert!(events.iter().any(|event| event["data"]["message"] == "old\0half"), "{events:?}");
    place.repair();
    assert_eq!(shown(place), expected);
    // Running again changes nothing.
    place.repair();
    assert_eq!(shown(place), expected);
    let server = start(place, true, &[]);
    compare(place, &server.url);
}
