//! The server that a verb talks to: its address, the key, and the profile that both may come from.

mod profiles;

pub use profiles::{Profiles, ServerProfile};

use crate::failure::Failure;
use crate::terminal::{ColorChoice, Output, confirm};
use clap::Args;
use selvedge_client::{CertificateFault, Client, Error, EventStream, Message, Options, Retries};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::timeout;

/// The rule of a command that follows something: a restart of the server does not end it.
const PATIENT: Retries = Retries { limit: Duration::from_secs(3600), when_unreachable: true };
/// The time for which an event stream may be interrupted before a person is told.
const NOTICE: Duration = Duration::from_secs(2);

/// The server of a newcomer.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:7878";

/// The flags of every verb that talks to a server.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
pub struct Remote {
    /// Talk to this server [default: that of the profile, or http://127.0.0.1:7878]
    #[arg(long, global = true, env = "SELVEDGE_SERVER", value_name = "URL", help_heading = "Server")]
    pub server: Option<String>,
    /// Authenticate with this API key; the variable keeps it out of the list of processes [default: that of the profile]
    #[arg(
        long,
        global = true,
        env = "SELVEDGE_KEY",
        hide_env_values = true,
        value_name = "KEY",
        help_heading = "Server"
    )]
    pub key: Option<String>,
    /// Act in this namespace; only for keys of several [default: that of the profile or the key]
    #[arg(long, global = true, env = "SELVEDGE_NAMESPACE", value_name = "NAME", help_heading = "Server")]
    pub namespace: Option<String>,
    /// Trust the certificates in this PEM file [default: those of this machine]
    #[arg(long, global = true, env = "SELVEDGE_CA_FILE", value_name = "FILE", help_heading = "Server")]
    pub ca_file: Option<PathBuf>,
    /// Use this profile of ~/.config/selvedge/config.toml [default: the one chosen with selvedge profile use]
    #[arg(long, global = true, env = "SELVEDGE_PROFILE", value_name = "NAME", help_heading = "Server")]
    pub profile: Option<String>,
    /// Print JSON: one object on one line, or one for each item
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
    /// Use colours: auto, always or never; NO_COLOR is respected
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub color: ColorChoice,
}

/// A client and the place of its output.
pub struct Session {
    /// The client of the server.
    pub client: Client,
    /// The standard output.
    pub out: Output,
}

impl Session {
    /// Returns a session that waits for a server that does not answer. For the requests after the first one, which fails at
    /// once because the address may be wrong.
    pub fn patient(&self) -> Session {
        Session { client: self.client.with_retries(PATIENT), out: self.out }
    }

    /// Asks for consent to what the sentence `effect` says. Names a server that is not on this machine, because a user may have
    /// several profiles.
    pub fn confirm(&self, effect: &str, yes: bool) -> Result<bool, Failure> {
        match self.client.is_loopback() {
            true => confirm(effect, yes),
            false => confirm(&format!("{effect} The server is {}.", self.client.server()), yes),
        }
    }

    /// Returns the next message of an event stream. Tells a person if the stream is interrupted.
    pub async fn next(&self, events: &mut EventStream) -> Result<Message, Failure> {
        let mut is_told = false;
        loop {
            if let Ok(message) = timeout(NOTICE, events.next()).await {
                return Ok(message?);
            }
            match events.interruption() {
                Some(error) if !is_told => {
                    self.out.note(format!("selvedge: {error}; resuming as soon as it answers"));
                    is_told = true;
                }
                Some(_) => {}
                None => is_told = false,
            }
        }
    }
}

impl Remote {
    /// Returns a client of the server, and the output.
    pub fn open(&self) -> Result<Session, Failure> {
        let (server, options) = self.choose()?;
        Ok(Session { client: Client::with_options(&server, options)?, out: self.output() })
    }

    /// Returns the handle of the namespace for a worker, which waits for a server that is away.
    pub fn namespace(&self) -> Result<selvedge::Namespace, Failure> {
        let (server, options) = self.choose()?;
        let options = Options { retries: Retries::default(), ..options };
        let client = selvedge::Client::with_options(&server, options);
        client.and_then(|client| client.namespace_of_key()).map_err(|error| Failure::Usage(error.to_string()))
    }

    /// Returns the address of the server and the options of its client.
    fn choose(&self) -> Result<(String, Options), Failure> {
        let profile = Profiles::load()?.choose(self.profile.as_deref())?;
        // A key belongs to its server: that of a profile is not sent to another one.
        let is_own = self.server.is_none() || self.server == profile.server;
        let profile = if is_own { profile } else { ServerProfile::default() };
        let server = self.server.clone().or(profile.server).unwrap_or_else(|| DEFAULT_SERVER.into());
        let options = Options {
            key: self.key.clone().or(profile.key),
            namespace: self.namespace.clone().or(profile.namespace),
            ca_file: self.ca_file.clone().or(profile.ca_file),
            retries: Retries { limit: Duration::from_secs(10), when_unreachable: false },
            user_agent: concat!("selvedge-cli/", env!("CARGO_PKG_VERSION")).into(),
            ..Options::default()
        };
        Ok((server, options))
    }

    /// Reports whether a flag, a variable or a profile names a server.
    pub fn names_server(&self) -> Result<bool, Failure> {
        let profile = Profiles::load()?.choose(self.profile.as_deref())?;
        Ok(self.server.is_some() || profile.server.is_some())
    }

    /// Returns the output.
    pub fn output(&self) -> Output {
        Output::new(self.json, self.color)
    }
}

/// Returns what to do about a certificate that is not accepted.
pub fn remedy_of(fault: CertificateFault) -> &'static str {
    match fault {
        CertificateFault::UnknownIssuer => {
            "name the file with the certificate of its issuer, or with its own if it has signed itself, with --ca-file or \
             SELVEDGE_CA_FILE"
        }
        CertificateFault::IsAuthority => {
            "make one for the server, with basicConstraints=CA:FALSE; docs/operating.md, \"TLS\", has the command"
        }
        CertificateFault::Expired => "renew it on the server, or correct the clock of this machine",
        CertificateFault::NotYetValid => "correct the clock of this machine, or wait until it is valid",
        CertificateFault::WrongName => {
            "use a name or an IP address that it has among its subject alternative names, in --server or SELVEDGE_SERVER, or \
             have it issued for this one"
        }
        _ => "replace it on the server",
    }
}

impl From<Error> for Failure {
    /// Adds what to do, and chooses the exit code.
    fn from(error: Error) -> Failure {
        let text = error.to_string();
        match &error {
            Error::Unreachable { .. } => Failure::Failed(format!(
                "{text}; start one with `selvedge dev`, or name another with --server or SELVEDGE_SERVER"
            )),
            Error::Certificate { fault, .. } => Failure::Failed(format!("{text}; {}", remedy_of(*fault))),
            Error::Answer { .. } => Failure::Failed(format!("{text}; check --server")),
            Error::Address { .. } => Failure::Usage(format!(
                "{text}; write it like http://127.0.0.1:7878 in --server or SELVEDGE_SERVER"
            )),
            Error::Problem(problem) => match problem.status {
                401 => Failure::NotPermitted(format!("{text}; give a valid key with SELVEDGE_KEY or --key")),
                403 => Failure::NotPermitted(text),
                404 => Failure::NotFound(text),
                _ => Failure::Failed(text),
            },
            _ => Failure::Failed(text),
        }
    }
}
