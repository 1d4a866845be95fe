//! A browser under the control of a test: chromedriver with a headless Chromium, and what its logs say.

use crate::driver::Driver;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time that a test waits for a page to change; nothing here takes as long.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The number of ports that chromedriver is started with.
const PORTS_TRIED: usize = 10;
/// Starts Chromium without a window, and without requests of its own. The pipe is its connection to chromedriver: Chromium ends when
/// the pipe closes, so also when chromedriver is killed.
const FLAGS: [&str; 11] = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
];

/// Runs in every page before its own script. Writes an error to the log, which [`Browser::finish`] reads, when the page breaks its
/// policy and when text of a user is executed: hostile texts of tests call `canary()`.
const GUARD: &str = "
    document.addEventListener('securitypolicyviolation', (event) =>
      console.error(`Content Security Policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
    window.canary = () => console.error('text of a user was executed');
";

/// The colours that a person prefers.
#[derive(Clone, Copy, PartialEq)]
pub enum Colours {
    Light,
    Dark,
}

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts chromedriver. Returns its process and its port, or none if it found no free port: it picks one for IPv4 and needs the same
/// for IPv6, where another process may have it. The kernel kills chromedriver when the thread of the test ends, also if the test is
/// killed.
fn start_driver() -> Option<(Process, u16)> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "chromedriver", "--port=0"]).stdout(Stdio::piped());
    let mut process = Process(command.spawn().expect("setpriv of util-linux is installed"));
    let stdout = BufReader::new(process.0.stdout.take().expect("its output is captured"));
    let mut lines = stdout.lines().map(|line| line.expect("its output is text"));
    let port = lines.find_map(|line| {
        line.split("successfully on port ")
            .nth(1)
            .and_then(|rest| rest.trim_end_matches('.').trim().parse().ok())
    });
    if port.is_none() && process.0.wait().is_ok_and(|status| status.code() == Some(127)) {
        panic!("chromedriver is missing: scripts/install-packages chromium chromium-driver");
    }
    port.map(|port| (process, port))
}

/// A running browser.
pub struct Browser {
    /// Ended before its process.
    driver: Driver,
    _process: Process,
    /// The address of the server, to which all requests must go.
    server: String,
}

impl Browser {
    /// Starts a browser for the pages of `server`, an address such as `http://127.0.0.1:7878`.
    pub async fn start(server: &str, colours: Colours) -> Browser {
        let started = (0..PORTS_TRIED).find_map(|_| start_driver());
        let (process, port) = started.expect("chromedriver finds a free port");
        let mut flags = FLAGS.to_vec();
        if colours == Colours::Dark {
            flags.push("--blink-settings=preferredColorScheme=0");
        }
        let driver = Driver::start(&format!("http://127.0.0.1:{port}"), &flags);
        let browser = Browser { driver, _process: process, server: server.to_owned() };
        browser.command("Page.addScriptToEvaluateOnNewDocument", json!({ "source": GUARD }));
        browser
    }

    /// Switches the scripts of pages off. [`Browser::eval`] still works.
    pub fn switch_scripts_off(&self) {
        self.command("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    }

    /// Sends a command of the DevTools protocol.
    fn command(&self, name: &str, parameters: Value) -> Value {
        self.driver.post("goog/cdp/execute", json!({ "cmd": name, "params": parameters }))
    }

    /// Opens a page of the server.
    pub async fn open(&self, path: &str) {
        self.driver.post("url", json!({ "url": format!("{}{path}", self.server) }));
    }

    /// Runs a script that returns a value.
    pub async fn eval(&self, script: &str) -> Value {
        self.driver.post("execute/sync", json!({ "script": script, "args": [] }))
    }

    /// Waits until a script returns true.
    pub async fn wait_for(&self, script: &str) {
        let begin = Instant::now();
        while self.eval(&format!("return Boolean({script})")).await != Value::Bool(true) {
            assert!(begin.elapsed() < TIMEOUT, "{script} stays false: {}", self.text().await);
            tokio::task::yield_now().await;
        }
    }

    /// Returns the text of the page as a person reads it.
    pub async fn text(&self) -> String {
        self.eval("return document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// Clicks the element with this selector.
    pub async fn click(&self, selector: &str) {
        let found = self.driver.post("element", json!({ "using": "css selector", "value": selector }));
        let id = found.as_object().and_then(|element| element.values().next()).and_then(Value::as_str);
        let id = id.unwrap_or_else(|| panic!("{selector}: {found}"));
        self.driver.post(&format!("element/{id}/click"), json!({}));
    }

    /// Sets a field of a form as a person does, and tells the page.
    pub async fn set(&self, selector: &str, value: &str) {
        let (selector, value) = (json!(selector), json!(value));
        let script = format!(
            "const field = document.querySelector({selector}); field.focus(); field.value = {value}; \
             for (const kind of ['input', 'change']) field.dispatchEvent(new Event(kind, {{ bubbles: true }}))"
        );
        self.eval(&script).await;
    }

    /// Waits until the page shows a text.
    pub async fn wait_for_text(&self, text: &str) {
        self.wait_for(&format!("document.body.innerText.includes({})", json!(text))).await;
    }

    /// Presses keys, one after the other, wherever the page has its focus.
    pub async fn press(&self, keys: &str) {
        let strokes = keys.chars().flat_map(|key| {
            // WebDriver has codes of its own for the return key and the tabulator.
            let value = match key {
                '\n' => '\u{E007}',
                '\t' => '\u{E004}',
                other => other,
            };
            ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": value.to_string() }))
        });
        let strokes: Vec<Value> = strokes.collect();
        let actions = json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": strokes }] });
        self.driver.post("actions", actions);
    }

    /// Saves a picture of the page in `target/screenshots`, as wide as given and as high as the page, up to a limit.
    pub async fn screenshot(&self, name: &str, width: u32) {
        self.resize(width, 900).await;
        let height = self.eval("return document.documentElement.scrollHeight").await.as_u64().unwrap_or(900);
        self.resize(width, height.clamp(600, 3000) as u32).await;
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../screenshots");
        std::fs::create_dir_all(&folder).expect("the folder is created");
        std::fs::write(folder.join(format!("{name}.png")), self.driver.screenshot())
            .expect("the picture is saved");
    }

    /// Returns a cookie of the page with its attributes.
    pub fn cookie(&self, name: &str) -> Value {
        self.driver.get(&format!("cookie/{name}"))
    }

    /// Sets the size of the window.
    pub async fn resize(&self, width: u32, height: u32) {
        self.driver.post("window/rect", json!({ "x": 0, "y": 0, "width": width, "height": height }));
    }

    /// Reports whether the page is wider than the window.
    pub async fn overflows(&self) -> bool {
        self.eval("return document.documentElement.scrollWidth > document.documentElement.clientWidth").await
            == Value::Bool(true)
    }

    /// Takes the log so far and asserts that its only errors are requests that the server refused with this status.
    pub async fn expect_refusals(&self, status: u16) {
        for entry in self.driver.log("browser").iter().filter(|entry| entry["level"] == "SEVERE") {
            let is_refusal = entry["message"].to_string().contains(&format!("status of {status}"));
            assert!(entry["source"] == "network" && is_refusal, "{entry}");
        }
    }

    /// Asserts that no page broke its policy or had an error, and that no request went to another place. Ends the browser.
    pub async fn finish(self) {
        self.finish_after(&[]).await;
    }

    /// [`Browser::finish`], for a test in which the server refuses requests with these statuses. Browsers log them as errors.
    pub async fn finish_after(self, statuses: &[u16]) {
        for entry in self.driver.log("browser") {
            let (level, message) = (entry["level"].to_string(), entry["message"].to_string());
            let refused = |status: &u16| message.contains(&format!("responded with a status of {status} "));
            if statuses.iter().any(refused) {
                continue;
            }
            assert!(!level.contains("SEVERE") && !message.contains("Content Security Policy"), "{entry}");
        }
        let mut requests = 0;
        for entry in self.driver.log("performance") {
            let text = entry["message"].as_str().unwrap_or_default();
            let entry: Value = serde_json::from_str(text).expect("an entry is JSON");
            let message = &entry["message"];
            if message["method"] == "Network.requestWillBeSent" {
                let url = message["params"]["request"]["url"].as_str().unwrap_or_default();
                let is_own = url.starts_with(&format!("{}/", self.server)) || url.starts_with("data:");
                assert!(is_own, "the page requests {url}");
                requests += 1;
            }
        }
        assert!(requests > 0, "the log of requests is empty");
    }
}
