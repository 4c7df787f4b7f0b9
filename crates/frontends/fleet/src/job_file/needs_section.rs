//! The `needs` section: machine resources and dependencies on other jobs of the file.

use std::collections::{BTreeMap, HashMap};

use haft_fleet_store::{ResourceRequest, RunId};
use serde_json::Value;

use super::{
    FileLocation, PlannedJob,
    job_names::{text_of, unknown_field},
    located_yaml::{LocatedError, LocatedNode},
    units::size_of,
};

/// Name of a required job, and its location.
pub(super) type NeededName = (String, FileLocation);

/// Parses `needs: {cpu: 4, mem: 8G, gpu: 1, jobs: [a, b]}`, `needs: [a, b]` or `needs: a`.
pub(super) fn read_needs(
    part: &LocatedNode,
    wrong: &mut Vec<LocatedError>,
) -> (ResourceRequest, Vec<NeededName>) {
    let mut machine = ResourceRequest::default();
    let Some(fields) = part.table() else { return (machine, names(part, wrong)) };
    let mut needed = Vec::new();
    for (name, at, value) in fields {
        let number = || match value.plain() {
            Value::Number(number) => number.as_u64().ok_or("a whole number, 1 or more"),
            Value::String(text) => text.trim().parse::<u64>().map_err(|_| "a whole number, 1 or more"),
            _ => Err("a whole number, 1 or more"),
        };
        let size = || match value.plain() {
            Value::Number(number) => number.as_u64().ok_or_else(|| String::from("a size such as 8G")),
            other => size_of(&text_of(&other)),
        };
        let told = match name.as_str() {
            "cpu" => number().map(|it| machine.cpu = it).map_err(str::to_owned),
            "gpu" => number().map(|it| machine.gpu = it).map_err(str::to_owned),
            "mem" | "memory" => size().map(|it| machine.mem = it),
            "jobs" => {
                needed = names(value, wrong);
                Ok(())
            }
            other => {
                wrong.push((*at, unknown_field(other, &["cpu", "mem", "gpu", "jobs"])));
                Ok(())
            }
        };
        if let Err(why) = told {
            wrong.push((value.at, why));
        }
    }
    (machine, needed)
}

fn names(part: &LocatedNode, wrong: &mut Vec<LocatedError>) -> Vec<NeededName> {
    let one = [part.clone()];
    let mut named = Vec::new();
    for it in part.list().unwrap_or(&one) {
        match it.plain() {
            value @ (Value::String(_) | Value::Number(_)) => named.push((text_of(&value), it.at)),
            Value::Null => (),
            _ => {
                wrong.push((it.at, String::from("names of jobs, or {cpu: 4, mem: 8G, gpu: 1, jobs: [NAME]}")))
            }
        }
    }
    named
}

/// Resolves names to ids and sorts jobs after their dependencies. `names` is the name of each job,
/// `needed` the names it requires, both by id.
pub(super) fn in_order(
    jobs: Vec<PlannedJob>,
    names: &HashMap<String, String>,
    needed: &HashMap<String, Vec<NeededName>>,
    wrong: &mut Vec<LocatedError>,
) -> Vec<PlannedJob> {
    if needed.is_empty() {
        return jobs;
    }
    let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for job in &jobs {
        if let Some(name) = names.get(&job.id) {
            by_name.entry(name).or_default().push(&job.id);
        }
    }
    let mut runs: HashMap<String, Vec<String>> = HashMap::new();
    for (id, wanted) in needed {
        for (name, at) in wanted {
            match by_name.get(name.as_str()) {
                Some(found) => {
                    runs.entry(id.clone()).or_default().extend(found.iter().map(|it| (*it).to_owned()))
                }
                None => {
                    let near = haft_types::nearest(name, by_name.keys().copied(), 1);
                    let near = near.first().map_or_else(String::new, |it| format!("; did you mean `{it}`?"));
                    wrong.push((
                        *at,
                        format!("no job of this file is called `{name}` (its key, or `name`){near}"),
                    ));
                }
            }
        }
    }
    sorted(jobs, &runs, names, wrong)
}

/// Topological sort that otherwise keeps the order of the file.
fn sorted(
    jobs: Vec<PlannedJob>,
    runs: &HashMap<String, Vec<String>>,
    names: &HashMap<String, String>,
    wrong: &mut Vec<LocatedError>,
) -> Vec<PlannedJob> {
    let places: HashMap<String, usize> =
        jobs.iter().enumerate().map(|(at, it)| (it.id.clone(), at)).collect();
    let needs: Vec<Vec<usize>> = jobs
        .iter()
        .map(|it| runs.get(&it.id).into_iter().flatten().filter_map(|id| places.get(id).copied()).collect())
        .collect();
    let (mut order, mut state) = (Vec::new(), vec![0_u8; jobs.len()]);
    for first in 0..jobs.len() {
        // Each job on the path with the number of its dependencies visited so far.
        let mut path = vec![(first, 0)];
        while let Some((at, looked)) = path.pop() {
            if state[at] == 2 {
                continue;
            }
            state[at] = 1;
            let Some(next) = needs[at].get(looked).copied() else {
                state[at] = 2;
                order.push(at);
                continue;
            };
            path.push((at, looked + 1));
            match state[next] {
                0 => path.push((next, 0)),
                1 => {
                    let of = |at: usize| names.get(&jobs[at].id).map_or("a job", String::as_str);
                    let from = path.iter().position(|it| it.0 == next).unwrap_or_default();
                    let round: Vec<&str> = path[from..].iter().map(|it| of(it.0)).chain([of(next)]).collect();
                    wrong.push((
                        jobs[next].place,
                        format!("jobs wait for each other: {}", round.join(" needs ")),
                    ));
                    return jobs;
                }
                _ => (),
            }
        }
    }
    let mut jobs: Vec<Option<PlannedJob>> = jobs.into_iter().map(Some).collect();
    let in_order = order.into_iter().filter_map(|at| jobs[at].take());
    let with_runs = in_order.map(|mut job| {
        let ids = runs.get(&job.id).into_iter().flatten();
        job.needs.runs = ids.filter_map(|id| RunId::parse(id).ok()).collect();
        job
    });
    with_runs.collect()
}
