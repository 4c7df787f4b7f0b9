//! Facts about command lines.
mod syntax;
mod witness;

#[cfg(test)]
mod agree_tests {
    #[test]
    fn corpus() {
        let path = std::env::var("AGREE").unwrap();
        let (mut n, mut ok, mut bad) = (0, 0, 0);
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let source: String = serde_json::from_str(line).unwrap();
            if source.len() > 10_000 { continue }
            n += 1; let v = super::syntax::parse(&source).is_ok_and(|s| super::witness::agrees(&source, &s)); println!("V {} {}", u8::from(v), serde_json::to_string(&source).unwrap());
            match super::syntax::parse(&source) {
                Err(stop) => println!("STOP {} @{} {:?}", stop.why, stop.at, &source.chars().take(150).collect::<String>()),
                Ok(script) => {
                    let (other, own) = super::witness::both(&source, &script);
                    if other.as_ref() == Some(&own) { ok += 1; } else { bad += 1; println!("DIFF {source:?}\n  own {own:?}\n  other {other:?}"); }
                }
            }
        }
        println!("n {n} ok {ok} bad {bad}");
    }
}
