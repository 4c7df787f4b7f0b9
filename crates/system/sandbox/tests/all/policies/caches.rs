//! Programs outside the sandbox never use what a sandboxed command wrote to a cache.

use std::path::Path;

use super::*;

/// A home directory with Cargo's downloads, and the default policy for it.
fn home(walls: &Walls) -> PathBuf {
    let home = walls.top.join("home");
    for dir in [".cargo/registry/src", ".cargo/git"] {
        std::fs::create_dir_all(home.join(dir)).unwrap();
    }
    std::fs::write(home.join(".cargo/.package-cache"), "").unwrap();
    std::fs::write(home.join(".cargo/registry/src/build.rs"), "good\n").unwrap();
    home
}

fn policy(walls: &Walls, home: &Path, roots: &[PathBuf], write: &[PathBuf]) -> SandboxPolicy {
    let scratch = walls.top.join("scratch");
    let policy =
        WorkspacePolicy { roots, scratch: &scratch, home: Some(home), write, protect: &[], hide: &[] };
    policy.policy(Network::Off)
}

#[tokio::test]
async fn cargo_registry_written_inside_is_unchanged_outside() {
    for features in ["", "namespaces", "landlock"] {
        let walls = Walls::without(features);
        let home = home(&walls);
        let policy = policy(&walls, &home, &[walls.work()], &[]);
        let Some(backend) = walls.sandbox.report(&policy).backend else {
            eprintln!("SKIPPED: nothing confines commands here without {features:?}");
            continue;
        };
        let before = walls.everything("home");
        let cargo = home.join(".cargo").display().to_string();
        for attempt in [
            "echo bad > CARGO/registry/src/build.rs",
            "echo bad > CARGO/registry/src/new.rs",
            "rm -rf CARGO/registry/src",
            "mv CARGO/registry old; mkdir CARGO/registry",
            "mv CARGO old; mkdir CARGO",
            "echo bad > CARGO/git/db",
            "ln CARGO/registry/src/build.rs hard && echo bad > hard",
            "echo bad > CARGO/config.toml",
        ] {
            let (job, _) = walls.run(policy.clone(), &attempt.replace("CARGO", &cargo)).await;
            assert_eq!(walls.everything("home"), before, "{features:?} {attempt}: {}", text(&job));
        }
        let takes_lock = format!("flock -n {cargo}/.package-cache echo locked");
        assert_eq!(walls.text(policy, &takes_lock).await, "locked\n", "{backend:?}");
    }
}

#[tokio::test]
async fn cargo_registry_inside_writable_home_is_unchanged_outside() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
        return;
    }
    let home = home(&walls);
    let policy = policy(&walls, &home, &[walls.work(), home.clone()], &[]);
    let cargo = home.join(".cargo");
    let command = format!(
        "cd {0}; echo bad > registry/src/build.rs; cat registry/src/build.rs; \
         mv registry r; mv ../.cargo ../c; echo free > ../file; cat ../file",
        cargo.display()
    );
    let got = walls.text(policy, &command).await;
    assert!(got.ends_with("free\n"), "{got}");
    assert_eq!(std::fs::read_to_string(cargo.join("registry/src/build.rs")).unwrap(), "good\n");
}

#[tokio::test]
async fn cargo_registry_named_in_settings_is_written() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
        return;
    }
    let home = home(&walls);
    let policy = policy(&walls, &home, &[walls.work()], &[home.join(".cargo")]);
    assert!(policy.layers.is_empty());
    let file = home.join(".cargo/registry/src/build.rs");
    walls.text(policy, &format!("echo own > {}", file.display())).await;
    assert_eq!(std::fs::read_to_string(file).unwrap(), "own\n");
}

#[tokio::test]
async fn overlay_layer_lasts_for_the_session_and_is_not_shared_concurrently() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
        return;
    }
    let home = home(&walls);
    let confined = walls.confine(policy(&walls, &home, &[walls.work()], &[]));
    let src = home.join(".cargo/registry/src").display().to_string();
    let write = format!("echo layer > {src}/build.rs; mkdir {src}/dep; cat {src}/build.rs");
    let first = text(&walls.run_with(&confined, &write).await.0);
    if first.contains("Read-only file system") {
        eprintln!("SKIPPED: no overlays on this machine: {first}");
        return;
    }
    assert_eq!(first, "layer\n");
    let look = format!("cat {src}/build.rs; ls {src}");
    assert_eq!(text(&walls.run_with(&confined, &look).await.0), "layer\nbuild.rs\ndep\n");
    // While a command uses the layers, another one gets different ones.
    let mut spec = walls.rig.spec("touch started; until [ -e go ]; do sleep 0.01; done");
    spec.confinement = Some(Arc::clone(&confined));
    let waiting = walls.rig.shell.start(spec).unwrap();
    common::eventually("it starts", || walls.work().join("started").exists());
    assert_eq!(text(&walls.run_with(&confined, &look).await.0), "good\nbuild.rs\n");
    std::fs::write(walls.work().join("go"), "").unwrap();
    waiting.gone().await;
    let layers = walls.top.join("sandbox/layers");
    assert_eq!(std::fs::read_dir(&layers).unwrap().count(), 1);
    drop((confined, waiting));
    let Walls { rig, sandbox, .. } = walls;
    drop(sandbox);
    // Threads may still be releasing layers.
    common::eventually("layers end with the session", || std::fs::read_dir(&layers).unwrap().count() == 0);
    drop(rig);
}

/// Two packages in a local registry, in the format of `cargo local-registry`.
const REGISTRY: &str = r#"
set -e
mkdir -p reg/index app/src
for name in warm cold; do
  mkdir -p $name/src
  printf '[package]\nname = "%s"\nversion = "1.0.0"\nedition = "2021"\nbuild = "build.rs"\nlicense = "MIT"\ndescription = "x"\n' $name > $name/Cargo.toml
  printf 'fn main() {}\n' > $name/build.rs
  printf 'pub const NAME: &str = "%s";\n' $name > $name/src/lib.rs
  (cd $name && "$CARGO" package -q --offline --no-verify --allow-dirty)
  cp $name/target/package/$name-1.0.0.crate reg/
  sum=$(sha256sum reg/$name-1.0.0.crate | cut -d' ' -f1)
  mkdir -p reg/index/${name:0:2}/${name:2:2}
  printf '{"name":"%s","vers":"1.0.0","deps":[],"cksum":"%s","features":{},"yanked":false}\n' $name $sum > reg/index/${name:0:2}/${name:2:2}/$name
done
printf '[source.crates-io]\nreplace-with = "local"\n[source.local]\nlocal-registry = "%s/reg"\n' "$PWD" > "$CARGO_HOME/config.toml"
printf '[package]\nname = "app"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\nwarm = "1"\n' > app/Cargo.toml
printf 'fn main() { println!("{}", warm::NAME); }\n' > app/src/main.rs
cd app && "$CARGO" run -q --offline
"#;

/// Builds offline with a warm cache, and unpacks downloaded packages.
#[tokio::test]
async fn cargo_builds_in_sandbox_and_sandboxed_changes_are_not_built_outside() {
    let walls = Walls::new();
    let Some(cargo) = std::env::var_os("CARGO").filter(|_| walls.has(SandboxBackend::Namespaces)) else {
        eprintln!("SKIPPED: no cargo or no namespaces");
        return;
    };
    let home = home(&walls);
    let variables = [
        ("CARGO", cargo.to_str().unwrap().to_owned()),
        ("CARGO_HOME", home.join(".cargo").display().to_string()),
        ("RUSTC_WORKSPACE_WRAPPER", String::new()),
        ("CARGO_TARGET_DIR", String::from("target")),
        ("CARGO_BUILD_JOBS", String::from("1")),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    let spec = |command: &str| {
        let mut spec = walls.rig.spec(command);
        spec.variables.extend(variables.clone());
        spec.limit = std::time::Duration::from_secs(300);
        spec
    };
    let outside = async |command: &str| {
        let job = walls.rig.shell.start(spec(command)).unwrap();
        job.gone().await;
        text(&job)
    };
    assert_eq!(outside(REGISTRY).await, "warm\n");
    let confined = walls.confine(policy(&walls, &home, &[walls.work()], &[]));
    let inside = async |command: &str| {
        let job = {
            walls
                .rig
                .shell
                .start(haft_shell::run::JobSpec { confinement: Some(Arc::clone(&confined)), ..spec(command) })
                .unwrap()
        };
        job.gone().await;
        text(&job)
    };
    // A clean offline build with a warm cache.
    let rebuilt = "cd app && rm -rf target && \"$CARGO\" run -q --offline";
    assert_eq!(inside(rebuilt).await, "warm\n");
    // Downloaded but not unpacked yet.
    let more = "cd app && echo 'cold = \"1\"' >> Cargo.toml && sed -i 's/warm::/cold::/' src/main.rs && \"$CARGO\" run -q --offline";
    let got = inside(more).await;
    let has_overlays = !got.contains("Read-only file system");
    assert!(!has_overlays || got == "cold\n", "{got}");
    // A dependency's build script is changed inside the sandbox and runs there.
    let marker = walls.work().join("marker");
    let change = format!(
        "echo 'fn main() {{ std::fs::write(\"{}\", \"\").unwrap(); }}' > \"$CARGO_HOME\"/registry/src/*/warm-1.0.0/build.rs; {rebuilt}",
        marker.display()
    );
    let got = inside(&change).await;
    assert_eq!(marker.exists(), has_overlays, "{got}");
    std::fs::remove_file(&marker).ok();
    // The next build outside uses the downloaded version.
    assert_eq!(outside(rebuilt).await, "cold\n");
    assert!(!marker.exists(), "a build outside ran what a confined command wrote");
}
