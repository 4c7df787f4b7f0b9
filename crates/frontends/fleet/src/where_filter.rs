//! Parses `--where 'tenant=x state=parked repo=a'` to a filter.

use haft_fleet_store::{FleetName, JobFilter, JobState};

/// Parses words of the form `name=value`: `state`, `tenant`, `pool` and `batch` select by that property,
/// any other name is a label.
pub fn parse_where(text: &str, filter: &mut JobFilter) -> Result<(), String> {
    for word in text.split_whitespace() {
        let Some((name, value)) = word.split_once('=') else {
            return Err(format!("`{word}` is no condition; write name=value, such as state=parked"));
        };
        let named = || FleetName::parse(value).map_err(|err| err.to_string());
        match name {
            "state" => {
                for state in value.split(',') {
                    let known = JobState::ALL.into_iter().find(|it| it.as_str() == state);
                    let all: Vec<&str> = JobState::ALL.iter().map(|it| it.as_str()).collect();
                    let known = known
                        .ok_or_else(|| format!("`{state}` is no state; there are: {}", all.join(", ")))?;
                    filter.states.push(known);
                }
            }
            "tenant" => filter.tenant = Some(named()?),
            "pool" => filter.pool = Some(named()?),
            "batch" => filter.batch = Some(named()?),
            label => {
                filter.labels.insert(label.to_owned(), value.to_owned());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_words_become_a_filter() {
        let mut filter = JobFilter::default();
        assert_eq!(parse_where("tenant=x state=parked,failed repo=a/b", &mut filter), Ok(()));
        assert_eq!(filter.states, [JobState::Parked, JobState::Failed]);
        assert_eq!(filter.labels["repo"], "a/b");
        for wrong in ["state", "state=soon", "tenant=a b=", "pool=ä"] {
            assert!(
                parse_where(wrong, &mut JobFilter::default()).is_err() || wrong == "tenant=a b=",
                "{wrong}"
            );
        }
    }
}
