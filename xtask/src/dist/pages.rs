//! What a program prints about itself: manual and completions.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::machine::Machine;

/// Manual and completions; the same for every machine.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    /// Completion scripts: where they belong, and what is in them.
    pub(crate) completions: Vec<(&'static str, Vec<u8>)>,
    /// Manual pages, by their file names.
    pub(crate) manual: Vec<(String, Vec<u8>)>,
}

/// Where each shell looks for its script.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/haft"),
    ("zsh", "usr/share/zsh/vendor-completions/_haft"),
    ("fish", "usr/share/fish/vendor_completions.d/haft.fish"),
];

/// A program that can be asked here.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct PageProgram {
    /// The program and the words in front of ours.
    words: Vec<PathBuf>,
}

impl PageProgram {
    /// The one that was named, else a binary for this machine, else one that an
    /// emulator runs.
    pub(crate) fn choose(named: Option<&Path>, binaries: &[(Machine, PathBuf)]) -> Result<Self, String> {
        if let Some(named) = named {
            let named = named.canonicalize().map_err(|err| format!("{}: {err}", named.display()))?;
            return Ok(Self { words: vec![named] });
        }
        if let Some((_, binary)) = binaries.iter().find(|(machine, _)| Machine::here() == Some(*machine)) {
            return Ok(Self { words: vec![binary.clone()] });
        }
        for (machine, binary) in binaries {
            if let Some(emulator) = machine.emulator() {
                // Where Debian puts the libraries of another machine.
                let libraries = format!("/usr/{}-linux-gnu", machine.name());
                let words = [emulator, String::from("-L"), libraries].map(PathBuf::from);
                return Ok(Self { words: [&words[..], std::slice::from_ref(binary)].concat() });
            }
        }
        let names: Vec<&str> = binaries.iter().map(|(machine, _)| machine.name()).collect();
        Err(format!(
            "a program for {} does not run here, and has to print its manual: name one of the same version that \
             does (--binary or --pages), or install an emulator (qemu-user-static)",
            names.join(" or ")
        ))
    }

    /// Asks it. `out` is where it may put files.
    pub(crate) fn pages(&self, out: &Path) -> Result<Pages, String> {
        let dir = out.join("man");
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).map_err(|err| format!("{}: {err}", dir.display()))?;
        self.printed(&["dev", "man", &dir.display().to_string()])?;
        let mut manual = Vec::new();
        for entry in fs::read_dir(&dir).map_err(|err| err.to_string())?.flatten() {
            let text = fs::read(entry.path()).map_err(|err| err.to_string())?;
            manual.push((entry.file_name().to_string_lossy().into_owned(), text));
        }
        manual.sort();
        let script = |(shell, place)| Ok((place, self.printed(&["completions", shell])?));
        let completions = COMPLETIONS.into_iter().map(script).collect::<Result<_, String>>()?;
        Ok(Pages { completions, manual })
    }

    fn printed(&self, args: &[&str]) -> Result<Vec<u8>, String> {
        let [program, before @ ..] = self.words.as_slice() else {
            return Err(String::from("there is no program to ask"));
        };
        let output = Command::new(program).args(before).args(args).output();
        let output = output.map_err(|err| format!("{}: {err}", program.display()))?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(format!("haft {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr)))
        }
    }
}
