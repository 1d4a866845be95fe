//! Colours and signs of states and edges.
//!
//! The hues are those of Okabe and Ito, which people with any colour vision can tell apart, with lighter variants for
//! dark backgrounds. Nothing is told by colour alone: a state also has a sign and its name, an edge has a dash pattern.

use selvedge_core::join::Resolution;
use selvedge_core::state::StateName;
use std::fmt;

/// An RGB colour.
#[derive(Clone, Copy)]
pub struct Colour(u32);

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:06x}", self.0)
    }
}

impl Colour {
    fn channels(self) -> [u32; 3] {
        [self.0 >> 16 & 0xff, self.0 >> 8 & 0xff, self.0 & 0xff]
    }

    /// Mixes `percent` of this colour with `background`.
    fn over(self, background: Colour, percent: u32) -> Colour {
        let mix = |(colour, background): (u32, u32)| (colour * percent + background * (100 - percent)) / 100;
        let [red, green, blue] = self.channels();
        let [back_red, back_green, back_blue] = background.channels();
        let mixed = [(red, back_red), (green, back_green), (blue, back_blue)].map(mix);
        Colour(mixed[0] << 16 | mixed[1] << 8 | mixed[2])
    }

    /// Returns black or white, whichever is legible on this colour.
    fn contrast(self) -> Colour {
        let [red, green, blue] = self.channels();
        if red * 299 + green * 587 + blue * 114 > 130_000 { Colour(0x15171b) } else { Colour(0xffffff) }
    }
}

/// The colours for one kind of background.
pub struct Theme {
    /// The picture's background.
    pub paper: Colour,
    /// The colour of text.
    pub ink: Colour,
    /// The colour of secondary text.
    pub faint: Colour,
    /// The colour of borders.
    pub line: Colour,
    dark: bool,
}

/// The theme for light backgrounds.
pub const LIGHT: Theme = Theme {
    paper: Colour(0xfbfaf7),
    ink: Colour(0x22252b),
    faint: Colour(0x6b7078),
    line: Colour(0xe3e0d8),
    dark: false,
};

/// The theme for dark backgrounds.
pub const DARK: Theme = Theme {
    paper: Colour(0x15171b),
    ink: Colour(0xe6e4df),
    faint: Colour(0x969aa2),
    line: Colour(0x2c3036),
    dark: true,
};

impl Theme {
    pub fn state(&self, state: StateName) -> Colour {
        let (light, dark) = match state {
            StateName::WaitingDependencies => (0x8d929a, 0x858a93),
            StateName::Waiting => (0x56b4e9, 0x8fd0f5),
            StateName::Delayed => (0xcc79a7, 0xd992b9),
            StateName::Active => (0x0072b2, 0x2f8fd6),
            StateName::Suspended => (0x7a5cc2, 0xa58de0),
            StateName::Held => (0xa07b1c, 0xd0a83e),
            StateName::Completed => (0x009e73, 0x1fb58a),
            StateName::Failed => (0xd55e00, 0xe8752a),
            StateName::Cancelled => (0x454a52, 0xd3d6db),
            StateName::Expired => (0xe69f00, 0xf0b429),
            StateName::Skipped => (0xc4c7cc, 0x4d525a),
        };
        Colour(if self.dark { dark } else { light })
    }

    /// Returns the background of a node in this state.
    pub fn tint(&self, state: StateName) -> Colour {
        self.state(state).over(self.paper, if self.dark { 16 } else { 12 })
    }

    pub fn edge(&self, resolution: Resolution) -> Colour {
        match resolution {
            Resolution::Pending => self.faint.over(self.paper, 75),
            Resolution::Holds => self.ink.over(self.paper, 75),
            Resolution::Dead => self.state(StateName::Failed),
        }
    }

    /// Returns the colour of the line from a parent to a spawned child.
    pub fn spawned(&self) -> Colour {
        self.state(StateName::Delayed)
    }

    fn css_rules(&self, states: &[StateName]) -> String {
        let Theme { paper, ink, faint, line, .. } = self;
        let mut rules = vec![
            format!(".paper{{fill:{paper};stroke:{line}}}"),
            format!(".ink{{fill:{ink}}}"),
            format!(".soft{{fill:{}}}", ink.over(*paper, 80)),
            format!(".faint{{fill:{faint}}}"),
            format!(".halo{{fill:{faint};stroke:{paper}}}"),
            format!(".policy{{fill:{paper};stroke:{faint}}}"),
        ];
        let edges = [Resolution::Pending, Resolution::Holds, Resolution::Dead];
        let lines = edges.map(|resolution| (resolution.as_str(), self.edge(resolution)));
        for (class, colour) in lines.into_iter().chain([("spawned", self.spawned())]) {
            rules.push(format!(
                ".{class}{{stroke:{colour}}}.{class} .head,.selvedge-graph .tip.{class}{{fill:{colour}}}"
            ));
        }
        for state in states {
            let (class, colour) = (state.as_str(), self.state(*state));
            let (tint, contrast) = (self.tint(*state), colour.contrast());
            rules
                .push(format!(".{class} .box{{fill:{tint};stroke:{colour}}}.{class} .disc{{fill:{colour}}}"));
            rules.push(format!(".{class} .sign{{stroke:{contrast}}}"));
        }
        rules.iter().map(|rule| scoped(rule)).collect()
    }
}

/// Restricts CSS rules to the picture: a style element inside a page applies to the whole page.
fn scoped(rules: &str) -> String {
    rules.split_inclusive('}').map(|rule| format!(".selvedge-graph {rule}\n")).collect()
}

/// Returns the style sheet of a picture that shows these states.
pub fn style(states: &[StateName]) -> String {
    let shapes = scoped(
        "text{font-family:system-ui,-apple-system,\"Segoe UI\",sans-serif;white-space:pre}\
         .title{font-size:16px;font-weight:600}\
         .name{font-size:13px;font-weight:600}\
         .small{font-size:11px}\
         .box{stroke-width:1.25}\
         .skipped .box{stroke-dasharray:4 3}\
         .sign{fill:none;stroke-width:1.8;stroke-linecap:round;stroke-linejoin:round}\
         .edge{fill:none;stroke-width:1.5;stroke-linecap:round}\
         .edge .head,.selvedge-graph .tip{stroke:none}\
         .pending{stroke-dasharray:5 4}\
         .dead{stroke-dasharray:0.1 4;stroke-width:2}\
         .spawned{stroke-width:1.25}\
         .halo{font-size:11px;font-style:italic;stroke-width:4;stroke-linejoin:round;paint-order:stroke}",
    );
    let (light, dark) = (LIGHT.css_rules(states), DARK.css_rules(states));
    format!("{shapes}{light}@media (prefers-color-scheme:dark){{\n{dark}}}\n")
}

/// Returns the style sheet of a page with pictures, and the colours of the states as custom properties.
pub fn page_style() -> String {
    let properties = |theme: &Theme| -> String {
        let of_state = |state: &StateName| {
            let (word, colour) = (state.as_str(), theme.state(*state));
            format!("--state-{word}:{colour};--on-state-{word}:{};", colour.contrast())
        };
        StateName::ALL.iter().map(of_state).collect()
    };
    let (light, dark) = (properties(&LIGHT), properties(&DARK));
    let pictures = style(&StateName::ALL);
    format!(":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{pictures}")
}

/// Returns the sign in a state's disc, as a path around the disc's centre.
pub fn sign(state: StateName) -> &'static str {
    match state {
        StateName::WaitingDependencies => "M-2-3V3M2-3V3",
        StateName::Waiting => "M-3.7 0h.01M0 0h.01M3.7 0h.01",
        StateName::Delayed => "M0-4.2V.4L2.8 2.2",
        StateName::Active => "M-1.8-3.2 3.4 0-1.8 3.2z",
        StateName::Suspended => "M-2.6-3.4H2.6M-2.6 3.4H2.6M-2.2-3.2 2.2 3.2M2.2-3.2-2.2 3.2",
        StateName::Held => "M-3.4-3.4H3.4V3.4H-3.4z",
        StateName::Completed => "M-3.6.3-1.1 2.8 3.7-2.5",
        StateName::Failed => "M-2.7-2.7 2.7 2.7M2.7-2.7-2.7 2.7",
        StateName::Cancelled => "M-3.6 0H3.6",
        StateName::Expired => "M0-4.2V.8M0 4V4.01",
        StateName::Skipped => "M-3.2-3-.2 0-3.2 3M.8-3 3.8 0 .8 3",
    }
}
