//! A session of chromedriver, spoken to in the WebDriver protocol: JSON over HTTP, here with plain `curl`.
//!
//! The libraries for this protocol turn on features of serde_json for the whole build, so that tests would run with another
//! order of fields than the shipped program.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

/// A session. Its browser ends with it.
pub struct Driver {
    address: String,
}

impl Driver {
    /// Starts a browser with these flags, which records its log and its requests.
    pub fn start(server: &str, flags: &[&str]) -> Driver {
        let options = json!({ "args": flags });
        let logs = json!({ "browser": "ALL", "performance": "ALL" });
        let wanted = json!({ "goog:chromeOptions": options, "goog:loggingPrefs": logs });
        let created =
            call("POST", &format!("{server}/session"), &json!({ "capabilities": { "alwaysMatch": wanted } }));
        let id = created["sessionId"].as_str().unwrap_or_else(|| panic!("the browser starts: {created}"));
        Driver { address: format!("{server}/session/{id}") }
    }

    /// Makes a call and returns its value.
    pub fn post(&self, path: &str, body: Value) -> Value {
        call("POST", &format!("{}/{path}", self.address), &body)
    }

    /// Makes a call that only reads, and returns its value.
    pub fn get(&self, path: &str) -> Value {
        call("GET", &format!("{}/{path}", self.address), &Value::Null)
    }

    /// Returns the entries of a log since the last call.
    pub fn log(&self, kind: &str) -> Vec<Value> {
        match self.post("se/log", json!({ "type": kind })) {
            Value::Array(entries) => entries,
            other => panic!("the browser has a log: {other}"),
        }
    }

    /// Returns a picture of the page, as PNG.
    pub fn screenshot(&self) -> Vec<u8> {
        let picture = call("GET", &format!("{}/screenshot", self.address), &Value::Null);
        STANDARD.decode(picture.as_str().unwrap_or_default()).expect("a picture is base64")
    }
}

impl Drop for Driver {
    /// Ends the browser, so that it removes its profile. If that fails, it ends with its driver.
    fn drop(&mut self) {
        let _ = send("DELETE", &self.address, &Value::Null);
    }
}

/// Makes a call. An error of the driver ends the test.
fn call(method: &str, url: &str, body: &Value) -> Value {
    send(method, url, body).unwrap_or_else(|error| panic!("{method} {url} {body}: {error}"))
}

/// Makes a call. Returns its value, or the error.
fn send(method: &str, url: &str, body: &Value) -> Result<Value, String> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "120", "--request", method, url]);
    // A script may be longer than an argument.
    if !body.is_null() {
        curl.args(["--header", "content-type: application/json", "--data-binary", "@-"]);
    }
    let mut child = curl
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("curl starts");
    let mut stdin = child.stdin.take().expect("its input is a pipe");
    stdin.write_all(body.to_string().as_bytes()).expect("curl reads the body");
    drop(stdin);
    let output = child.wait_with_output().expect("curl ends");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let mut answer: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let value = answer["value"].take();
    match value["error"].is_null() {
        true => Ok(value),
        false => Err(value.to_string()),
    }
}
