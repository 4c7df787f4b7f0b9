//! The newline-JSON frames that programs around an agent speak.
//!
//! So far one direction: what an agent does, as the frames of
//! `--output-format stream-json`, in the shape the Agent SDKs read.
//!
//! **Does not know** terminals or how a session is built.
//!
//! **Invariant:** every frame is one line, carries the session's id and a name
//! of its own, and names lines of the log by the names they have there.

mod frames;

pub use frames::{Frames, Init, result_frame};
