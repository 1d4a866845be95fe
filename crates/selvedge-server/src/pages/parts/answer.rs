//! The words of a waitpoint for people: its question, and a label for each answer. The API has the names of signals.

use maud::{Markup, html};
use selvedge_core::{Name, Waitpoint};

/// Names that read as a state, with the label of their button.
const VERBS: [(&str, &str); 4] =
    [("approved", "Approve"), ("rejected", "Reject"), ("accepted", "Accept"), ("declined", "Decline")];

/// Returns the answers with their labels. Labels that would not differ are the names of the signals.
pub fn answers(waitpoint: &Waitpoint) -> Vec<(&Name, String)> {
    let choices = waitpoint.choices();
    let labels: Vec<String> = choices.iter().map(|choice| derive(waitpoint, choice)).collect();
    let is_distinct =
        labels.iter().enumerate().all(|(index, label)| !label.is_empty() && !labels[..index].contains(label));
    match is_distinct {
        true => choices.iter().zip(labels).collect(),
        false => choices.iter().map(|choice| (choice, choice.to_string())).collect(),
    }
}

/// Returns the label of an answer; of any other text, the text.
pub fn label(waitpoint: &Waitpoint, answer: &str) -> String {
    let found = answers(waitpoint).into_iter().find(|(choice, _)| choice.as_str() == answer);
    found.map_or_else(|| answer.to_owned(), |(_, label)| label)
}

/// Returns the question: the prompt, or one that is made from the name.
pub fn question(waitpoint: &Waitpoint) -> String {
    let prompt = waitpoint.prompt.as_deref().map(str::trim).filter(|prompt| !prompt.is_empty());
    match (prompt, approval(waitpoint)) {
        (Some(prompt), _) => prompt.to_owned(),
        (None, Some(approval)) => format!("Do you approve “{approval}”?"),
        (None, None) => waitpoint.name.to_string(),
    }
}

/// Returns the first line of the question.
pub fn headline(waitpoint: &Waitpoint) -> String {
    question(waitpoint).lines().next().unwrap_or_default().trim_end().to_owned()
}

/// Shows the further lines of the question.
pub fn further_lines(waitpoint: &Waitpoint) -> Markup {
    let question = question(waitpoint);
    let rest = question.split_once('\n').map(|(_, rest)| rest.trim_matches('\n').trim_end());
    html! { @if let Some(rest) = rest.filter(|rest| !rest.is_empty()) { p.prompt.user-text { (rest) } } }
}

/// Returns the question that is asked before an answer is sent.
pub fn confirmation(waitpoint: &Waitpoint, label: &str) -> String {
    format!("Send the answer “{label}”? It is final.\n\n{}", headline(waitpoint))
}

/// Reports whether the waitpoint belongs to an approval of an SDK: its answers are yes and no.
pub fn is_approval(waitpoint: &Waitpoint) -> bool {
    approval(waitpoint).is_some()
}

/// Returns the name of the approval of an SDK to which a waitpoint belongs: `deploy` of the waitpoint `deploy/ann` that asks ann and
/// whose answers are `deploy/ann` and `deploy/reject`.
fn approval(waitpoint: &Waitpoint) -> Option<&str> {
    let name = waitpoint.name.strip_suffix(waitpoint.source.as_str())?.strip_suffix('/')?;
    let rejects = |choice: &Name| choice.strip_prefix(name) == Some("/reject");
    let (choices, agrees) = (waitpoint.choices(), |choice: &Name| *choice == waitpoint.name);
    (choices.len() == 2 && choices.iter().any(agrees) && choices.iter().any(rejects)).then_some(name)
}

fn derive(waitpoint: &Waitpoint, choice: &Name) -> String {
    if approval(waitpoint).is_some() {
        return if *choice == waitpoint.name { "Approve" } else { "Reject" }.to_owned();
    }
    let choices = waitpoint.choices();
    let prefix = |name: &Name| name.rsplit_once('/').map(|(prefix, _)| prefix.to_owned());
    let has_one_prefix = choices.iter().all(|other| prefix(other) == prefix(choice));
    let own = choice.rsplit_once('/').filter(|_| has_one_prefix).map_or(choice.as_str(), |(_, own)| own);
    match VERBS.iter().find(|(name, _)| *name == own) {
        Some((_, verb)) => (*verb).to_owned(),
        None => capital(own.replace(['_', '-'], " ").trim()),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_core::token::TokenKeyId;
    use selvedge_core::waitpoint::WaitpointState;
    use selvedge_core::{ExecutionId, NamespaceId, Timestamp, WaitpointId};
    use uuid::Uuid;

    fn waitpoint(name: &str, source: &str, choices: &[&str], prompt: Option<&str>) -> Waitpoint {
        Waitpoint {
            id: WaitpointId(Uuid::nil()),
            namespace: NamespaceId(1),
            execution: ExecutionId(Uuid::nil()),
            number: 1,
            name: Name::trusted(name),
            source: Name::trusted(source),
            key: TokenKeyId(1),
            created_at: Timestamp::from_millis(0),
            expires_at: None,
            state: WaitpointState::Open,
            signals: (!choices.is_empty()).then(|| choices.iter().map(|name| Name::trusted(name)).collect()),
            prompt: prompt.map(str::to_owned),
            issue: 0,
        }
    }

    fn labels(waitpoint: &Waitpoint) -> Vec<String> {
        answers(waitpoint).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn an_approval_of_the_sdks_is_approved_or_rejected() {
        let ann = waitpoint("expense/ann", "ann", &["expense/ann", "expense/reject"], None);
        assert_eq!(labels(&ann), ["Approve", "Reject"]);
        assert_eq!(label(&ann, "expense/ann"), "Approve");
        assert_eq!(question(&ann), "Do you approve “expense”?");
        let in_branch =
            waitpoint("left/expense/a/b", "a/b", &["left/expense/a/b", "left/expense/reject"], None);
        assert_eq!(labels(&in_branch), ["Approve", "Reject"]);
        assert_eq!(question(&in_branch), "Do you approve “left/expense”?");
    }

    #[test]
    fn other_answers_are_words() {
        for (choices, shown) in [
            (&["approved", "rejected"][..], &["Approve", "Reject"][..]),
            (&["sign", "not_now", "ask-ann"], &["Sign", "Not now", "Ask ann"]),
            (&["order/ship", "order/hold"], &["Ship", "Hold"]),
            (&["order/ship", "hold"], &["Order/ship", "Hold"]),
            (&["é"], &["É"]),
        ] {
            assert_eq!(labels(&waitpoint(choices[0], "bob", choices, None)), shown);
        }
        assert_eq!(labels(&waitpoint("agree", "bob", &[], None)), ["Agree"]);
    }

    #[test]
    fn answers_with_equal_labels_keep_their_names() {
        for choices in [["approve", "approved"], ["not-now", "not_now"], ["a/", "a/b"]] {
            assert_eq!(labels(&waitpoint("x", "bob", &choices, None)), choices);
        }
    }

    #[test]
    fn a_prompt_has_a_headline_and_further_lines() {
        let two = waitpoint("x", "bob", &[], Some("\nPay 90 €?\n\n  to: ann\n"));
        assert_eq!(headline(&two), "Pay 90 €?");
        assert_eq!(further_lines(&two).into_string(), "<p class=\"prompt user-text\">  to: ann</p>");
        let one = waitpoint("x", "bob", &[], Some("Pay?"));
        assert_eq!((headline(&one).as_str(), further_lines(&one).into_string().as_str()), ("Pay?", ""));
        assert_eq!(headline(&waitpoint("x", "bob", &[], Some(" "))), "x");
    }
}
