//! Resume conditions of waits.

use crate::submission::millis;
use crate::{Timestamp, When};
use selvedge_core::Name;
use selvedge_core::suspension::{Condition, Distinct};
use std::time::Duration;

/// The resume condition of a [`wait`](crate::Context::wait): signals, a time, the end of the children, an operator, or
/// a combination of these with [`any`](Until::any) and [`all`](Until::all), nested up to four levels deep.
///
/// ```
/// use selvedge::Until;
/// use std::time::Duration;
///
/// // Two reviewers or the owner have to agree, and not before tomorrow.
/// let reviewed = Until::sources(2, ["review"]);
/// let overruled = Until::signal("overrule");
/// let tomorrow = Until::after(Duration::from_secs(24 * 3600));
/// let until = Until::all([Until::any([reviewed, overruled]), tomorrow]);
/// assert_eq!(
///     until.to_string(),
///     r#"(2 distinct sources of review (0 received) or signal "overrule") and a time"#,
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Until(pub(super) Condition);

impl Until {
    /// Requires a signal of this name.
    ///
    /// ```
    /// # use selvedge::Until;
    /// assert_eq!(Until::signal("paid").to_string(), r#"signal "paid""#);
    /// ```
    pub fn signal(name: impl AsRef<str>) -> Until {
        Until(Condition::signal(Name::trusted(name.as_ref())))
    }

    /// Requires signals of `n` different names among these.
    ///
    /// ```
    /// # use selvedge::Until;
    /// let two_of_three = Until::signals(2, ["paid", "packed", "weighed"]);
    /// assert_eq!(two_of_three.to_string(), "2 distinct signals of paid, packed, weighed (0 received)");
    /// ```
    pub fn signals<S: AsRef<str>>(n: u32, of: impl IntoIterator<Item = S>) -> Until {
        Until::count(n, of, Distinct::Signals)
    }

    /// Requires deliveries through `n` different waitpoints among these.
    ///
    /// ```
    /// # use selvedge::Until;
    /// let both = Until::waitpoints(2, ["bank", "customs"]);
    /// assert_eq!(both.to_string(), "2 distinct waitpoints of bank, customs (0 received)");
    /// ```
    pub fn waitpoints<S: AsRef<str>>(n: u32, of: impl IntoIterator<Item = S>) -> Until {
        Until::count(n, of, Distinct::Waitpoints)
    }

    /// Requires a signal with one of these names from `n` different sources.
    ///
    /// ```
    /// # use selvedge::Until;
    /// let two_people = Until::sources(2, ["agree"]);
    /// assert_eq!(two_people.to_string(), "2 distinct sources of agree (0 received)");
    /// ```
    pub fn sources<S: AsRef<str>>(n: u32, of: impl IntoIterator<Item = S>) -> Until {
        Until::count(n, of, Distinct::Sources)
    }

    fn count<S: AsRef<str>>(n: u32, of: impl IntoIterator<Item = S>, distinct: Distinct) -> Until {
        let names = of.into_iter().map(|name| Name::trusted(name.as_ref())).collect();
        Until(Condition::count(n, names, distinct))
    }

    /// Requires that this much time has passed since the wait began in its first attempt.
    ///
    /// ```
    /// # use selvedge::Until;
    /// # use std::time::Duration;
    /// assert_eq!(Until::after(Duration::from_secs(60)).to_string(), "a time");
    /// ```
    pub fn after(delay: Duration) -> Until {
        Until(Condition::until(When::AfterMs(millis(delay))))
    }

    /// Requires that this time has been reached.
    ///
    /// ```
    /// # use selvedge::{Timestamp, Until};
    /// assert_eq!(Until::at(Timestamp::from_millis(4_102_444_800_000)).to_string(), "a time");
    /// ```
    pub fn at(time: Timestamp) -> Until {
        Until(Condition::until(When::At(time)))
    }

    /// Requires an operator to resume the execution.
    ///
    /// ```
    /// # use selvedge::Until;
    /// assert_eq!(Until::operator().to_string(), "an operator");
    /// ```
    pub fn operator() -> Until {
        Until(Condition::operator())
    }

    /// Requires that all children have ended, except detached ones.
    ///
    /// ```
    /// # use selvedge::Until;
    /// assert_eq!(Until::children().to_string(), "the end of its children");
    /// ```
    pub fn children() -> Until {
        Until(Condition::children())
    }

    /// Requires at least one of these conditions.
    ///
    /// ```
    /// # use selvedge::Until;
    /// let either = Until::any([Until::signal("paid"), Until::operator()]);
    /// assert_eq!(either.to_string(), r#"signal "paid" or an operator"#);
    /// ```
    pub fn any(parts: impl IntoIterator<Item = Until>) -> Until {
        Until(Condition::Any(parts.into_iter().map(|part| part.0).collect()))
    }

    /// Requires all of these conditions.
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

/// Describes the condition in words.
impl std::fmt::Display for Until {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.describe())
    }
}
