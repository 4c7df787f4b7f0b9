//! The list of skills for the model: limited in size, and explicit about what was left out.

use std::collections::{HashMap, HashSet};

use super::SlashCommand;

/// Size limits of the skill list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ListingBudget {
    /// Maximum characters of the whole list.
    pub(crate) all: usize,
    /// Maximum characters of one description.
    pub(crate) each: usize,
}

impl ListingBudget {
    /// A fraction of the context window, at about four characters per token.
    pub(crate) fn of_window(tokens: u64, fraction: f64, each: usize) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a number of characters"
        )]
        let all = (tokens as f64 * 4.0 * fraction.clamp(0.0, 1.0)) as usize;
        Self { all: all.max(1), each: each.max(20) }
    }
}

/// The list of skills.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct SkillListing {
    /// One line per skill.
    pub(crate) lines: Vec<String>,
    /// Number of descriptions that were shortened.
    pub(crate) shortened: usize,
    /// Number of skills that were left out.
    pub(crate) left_out: usize,
}

/// Minimum characters of a shortened description.
const LEAST: usize = 24;

/// Lists skills in their order. If space is short, used skills keep their descriptions, most used first;
/// the others are shortened equally as far as possible; then the least used ones are left out.
pub(crate) fn listing(
    skills: &[&SlashCommand],
    budget: ListingBudget,
    uses: &HashMap<String, f64>,
) -> SkillListing {
    let described: Vec<(&str, String)> = skills
        .iter()
        .map(|it| (it.name.as_str(), haft_builtin_tools::agent::flat(&it.description, budget.each)))
        .collect();
    let line = |at: usize, most: usize| {
        let (name, text) = &described[at];
        match haft_types::text::one_line(text, most) {
            text if text.is_empty() || most == 0 => format!("- {name}"),
            text => format!("- {name}: {text}"),
        }
    };
    let length = |at: usize, most: usize| line(at, most).chars().count() + 1;
    let all = 0..described.len();
    let mut caps = vec![budget.each; described.len()];
    if budget.all < all.clone().map(|at| length(at, budget.each)).sum() {
        caps = shared_out(&described, budget, uses, &length);
    }
    let mut ranked: Vec<usize> = all.collect();
    ranked.sort_by(|a, b| uses_of(&described, uses, *b).total_cmp(&uses_of(&described, uses, *a)));
    let mut room = budget.all;
    let mut listed: Vec<usize> = Vec::new();
    for at in ranked {
        let length = length(at, caps[at]);
        if length <= room {
            room -= length;
            listed.push(at);
        }
    }
    listed.sort_unstable();
    SkillListing {
        shortened: listed.iter().filter(|at| caps[**at] < described[**at].1.chars().count()).count(),
        left_out: described.len() - listed.len(),
        lines: listed.into_iter().map(|at| line(at, caps[at])).collect(),
    }
}

fn uses_of(described: &[(&str, String)], uses: &HashMap<String, f64>, at: usize) -> f64 {
    uses.get(described[at].0).copied().unwrap_or_default()
}

/// Length of each description: complete for used skills as far as possible, equal for all others.
fn shared_out(
    described: &[(&str, String)],
    budget: ListingBudget,
    uses: &HashMap<String, f64>,
    length: &dyn Fn(usize, usize) -> usize,
) -> Vec<usize> {
    let mut caps = vec![LEAST; described.len()];
    let size = |caps: &[usize]| -> usize { caps.iter().enumerate().map(|(at, cap)| length(at, *cap)).sum() };
    let mut used: Vec<usize> =
        (0..described.len()).filter(|at| 0.0 < uses_of(described, uses, *at)).collect();
    used.sort_by(|a, b| uses_of(described, uses, *b).total_cmp(&uses_of(described, uses, *a)));
    let mut kept = HashSet::new();
    for at in used {
        caps[at] = budget.each;
        if size(&caps) <= budget.all {
            kept.insert(at);
        } else {
            caps[at] = LEAST;
        }
    }
    let with = |most: usize| -> Vec<usize> {
        let cap = |(at, cap): (usize, &usize)| if kept.contains(&at) { *cap } else { most };
        caps.iter().enumerate().map(cap).collect()
    };
    let (mut fits, mut over) = (LEAST, budget.each);
    while fits + 1 < over {
        let middle = usize::midpoint(fits, over);
        if size(&with(middle)) <= budget.all { fits = middle } else { over = middle }
    }
    with(fits)
}

impl SkillListing {
    /// A note about what the list leaves out.
    pub(crate) fn note(&self) -> Option<String> {
        let mut parts = Vec::new();
        if 0 < self.shortened {
            parts.push(format!("{} descriptions are shortened", self.shortened));
        }
        if 0 < self.left_out {
            parts.push(format!("{} more skills are not listed", self.left_out));
        }
        (!parts.is_empty()).then(|| {
            format!(
                "({}; call Skill with `?` and some words as the name to search all of them.)",
                parts.join(", ")
            )
        })
    }
}

/// Skills that match words of a query, best first.
pub(crate) fn search<'a>(skills: &[&'a SlashCommand], words: &str) -> Vec<&'a SlashCommand> {
    let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
    let score = |it: &SlashCommand| {
        let (name, about) = (it.name.to_lowercase(), it.description.to_lowercase());
        let of = |word: &String| usize::from(name.contains(word)) * 3 + usize::from(about.contains(word));
        words.iter().map(of).sum::<usize>()
    };
    let mut found: Vec<(usize, &SlashCommand)> = skills
        .iter()
        .map(|it| (score(it), *it))
        .filter(|(score, _)| 0 < *score || words.is_empty())
        .collect();
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.name.cmp(&b.1.name)));
    found.into_iter().map(|(_, it)| it).take(20).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AgentSource,
        extensions::{FrontMatter, SlashKind},
    };

    fn skill(name: &str, description: &str) -> SlashCommand {
        let mut front = FrontMatter::parse(&format!("---\ndescription: {description}\n---\nbody"));
        let kind = SlashKind::Skill { body: String::new(), dir: "/".into() };
        SlashCommand::of_front(&mut front, name.to_owned(), kind, AgentSource::User)
    }

    #[test]
    fn every_skill_keeps_a_line_and_what_is_short_is_said() {
        let skills: Vec<SlashCommand> = (0..200)
            .map(|n| skill(&format!("skill-{n:03}"), &format!("About {n}. {}", "word ".repeat(60))))
            .collect();
        let all: Vec<&SlashCommand> = skills.iter().collect();
        for (budget, shortened, left_out) in
            [(100_000, 0, 0), (20_000, 200, 0), (8_000, 200, 0), (2_000, 52, 148)]
        {
            let found = listing(&all, ListingBudget { all: budget, each: 1_536 }, &HashMap::new());
            assert_eq!((found.shortened, found.left_out), (shortened, left_out), "{budget}");
            let size: usize = found.lines.iter().map(|it| it.chars().count() + 1).sum();
            assert!(size <= budget, "{budget}: {size}");
            assert_eq!(found.lines.len(), 200 - left_out);
            assert!(found.lines.iter().enumerate().all(|(n, it)| it.contains(&format!("About {n}."))));
            assert_eq!(found.note().is_some(), shortened + left_out != 0);
        }
        let found = search(&all, "about 77.");
        assert_eq!(found[0].name, "skill-077");
        let short = [skill("a", "Short."), skill("b", &"long ".repeat(100))];
        let found = {
            let budget = ListingBudget { all: 120, each: 1_536 };
            listing(&short.iter().collect::<Vec<_>>(), budget, &HashMap::new())
        };
        assert_eq!((found.lines[0].as_str(), found.shortened), ("- a: Short.", 1));
    }

    /// Who is used keeps its words, and its place when there is none for all.
    #[test]
    fn what_is_used_is_listed_first() {
        let skills: Vec<SlashCommand> = (0..200)
            .map(|n| skill(&format!("skill-{n:03}"), &format!("About {n}. {}", "word ".repeat(60))))
            .collect();
        let all: Vec<&SlashCommand> = skills.iter().collect();
        let uses = HashMap::from([(String::from("skill-150"), 2.0), (String::from("skill-199"), 0.5)]);
        for budget in [9_000, 2_000] {
            let found = listing(&all, ListingBudget { all: budget, each: 1_536 }, &uses);
            let line = |name: &str| found.lines.iter().find(|it| it.contains(name)).map_or(0, String::len);
            assert!(300 < line("skill-150") && 300 < line("skill-199") || budget == 2_000, "{budget}");
            assert!(0 < line("skill-150") && 0 < line("skill-199"), "{budget}");
            let size: usize = found.lines.iter().map(|it| it.chars().count() + 1).sum();
            assert!(size <= budget, "{budget}: {size}");
            assert!(found.lines.is_sorted(), "their order stays");
        }
    }
}
