//! What a handler waits for, in its own words.

use crate::submission::millis;
use crate::{Name, Timestamp, When};
use selvedge_core::suspension::{Condition, Distinct};
use std::time::Duration;

/// What a [`wait`](crate::Context::wait) waits for: signals, a time, the children, an operator; one of several of these, or
/// all of them, nested up to four deep.
///
/// ```
/// use selvedge::Until;
/// use std::time::Duration;
///
/// // Two of three people, or a word of the owner, but nothing before tomorrow.
/// let reviewed = Until::sources(2, ["review"]);
/// let overruled = Until::signal("overrule");
/// let tomorrow = Until::after(Duration::from_secs(24 * 3600));
/// let until = Until::all([Until::any([reviewed, overruled]), tomorrow]);
/// assert_eq!(
///     until.to_string(),
///     r#"(2 distinct sources of review (0 have come) or signal "overrule") and a time"#,
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Until(pub(super) Condition);

impl Until {
    /// A signal of this name has come.
    ///
    /// ```
    /// # use selvedge::Until;
    /// assert_eq!(Until::signal("paid").to_string(), r#"signal "paid""#);
    /// ```
    pub fn signal(name: impl AsRef<str>) -> Until {
        Until(Condition::signal(Name::trusted(name.as_ref())))
    }

    /// So many different ones of these signals have come.
    ///
    /// ```
    /// # use selvedge::Until;
    /// let two_of_three = Until::signals(2, ["paid", "packed", "weighed"]);
    /// assert_eq!(two_of_three.to_string(), "2 distinct signals of paid, packed, weighed (0 have come)");
    /// ```
    pub fn signals<S: AsRef<str>>(n: u32, of: impl IntoIterator<Item = S>) -> Until {
        Until::count(n, of, Distinct::Signals)
    }

    /// A delivery has come through so many of these waitpoints.
    ///
    /// ```
    /// # use selvedge::Until;
    /// let both = Until::waitpoints(2, ["bank", "customs"]);
    /// assert_eq!(both.to_string(), "2 distinct waitpoints of bank, customs (0 have come)");
    /// ```
    pub fn waitpoints<S: AsRef<str>>(n: u32, of: impl IntoIterator<Item = S>) -> Until {
        Until::count(n, of, Distinct::Waitpoints)
    }

    /// So many different sources have sent one of these signals.
    ///
    /// ```
    /// # use selvedge::Until;
    /// let two_people = Until::sources(2, ["agree"]);
    /// assert_eq!(two_people.to_string(), "2 distinct sources of agree (0 have come)");
    /// ```
    pub fn sources<S: AsRef<str>>(n: u32, of: impl IntoIterator<Item = S>) -> Until {
        Until::count(n, of, Distinct::Sources)
    }

    fn count<S: AsRef<str>>(n: u32, of: impl IntoIterator<Item = S>, distinct: Distinct) -> Until {
        let names = of.into_iter().map(|name| Name::trusted(name.as_ref())).collect();
        Until(Condition::count(n, names, distinct))
    }

    /// This long has passed since it was first waited for.
    ///
    /// ```
    /// # use selvedge::Until;
    /// # use std::time::Duration;
    /// assert_eq!(Until::after(Duration::from_secs(60)).to_string(), "a time");
    /// ```
    pub fn after(delay: Duration) -> Until {
        Until(Condition::until(When::AfterMs(millis(delay))))
    }

    /// This time has come.
    ///
    /// ```
    /// # use selvedge::{Timestamp, Until};
    /// assert_eq!(Until::at(Timestamp::from_millis(4_102_444_800_000)).to_string(), "a time");
    /// ```
    pub fn at(time: Timestamp) -> Until {
        Until(Condition::until(When::At(time)))
    }

    /// An operator has said so.
    ///
    /// ```
    /// # use selvedge::Until;
    /// assert_eq!(Until::operator().to_string(), "an operator");
    /// ```
    pub fn operator() -> Until {
        Until(Condition::operator())
    }

    /// The children have ended, those aside that were spawned detached.
    ///
    /// ```
    /// # use selvedge::Until;
    /// assert_eq!(Until::children().to_string(), "the end of its children");
    /// ```
    pub fn children() -> Until {
        Until(Condition::children())
    }

    /// One of these holds.
    ///
    /// ```
    /// # use selvedge::Until;
    /// let either = Until::any([Until::signal("paid"), Until::operator()]);
    /// assert_eq!(either.to_string(), r#"signal "paid" or an operator"#);
    /// ```
    pub fn any(parts: impl IntoIterator<Item = Until>) -> Until {
        Until(Condition::Any(parts.into_iter().map(|part| part.0).collect()))
    }

    /// All of these hold.
    ///
    /// ```
    /// # use selvedge::Until;
    /// let both = Until::all([Until::signal("paid"), Until::children()]);
    /// assert_eq!(both.to_string(), r#"signal "paid" and the end of its children"#);
    /// ```
    pub fn all(parts: impl IntoIterator<Item = Until>) -> Until {
        Until(Condition::All(parts.into_iter().map(|part| part.0).collect()))
    }
}

/// In words, for people.
impl std::fmt::Display for Until {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.describe())
    }
}
