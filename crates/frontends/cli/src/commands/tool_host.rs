//! `haft tool-host`: offers the files and commands of this machine to sessions on other machines.

use std::{
    fs::File,
    io::Write as _,
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
    sync::Arc,
    time::Duration,
};

use haft_console::{
    GlobalArgs,
    interrupt::stop_on_signal,
    stdout::{CliError, CommandExit, print_error, print_line, write_error},
};
use haft_session::{HostSessionFactory, SessionEnvironment};
use haft_tool_host::{
    HostAddress, HostAddressError, HostConfig, HostLimits, HostName, HostRunRegistry, SocketPath, WebOptions,
    relay, serve_meeting, serve_socket, serve_through, serve_web,
};
use tokio::net::TcpListener;

use crate::run::session_spec;

/// Flags of `haft tool-host`.
#[derive(Debug, clap::Args)]
pub(crate) struct ToolHostArgs {
    /// Serve one client on standard input and output; `ssh` starts this
    #[arg(long, conflicts_with_all = ["http", "stop", "resident"])]
    stdio: bool,
    /// Serve clients at this address, in the working directory
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0")]
    http: Option<SocketAddr>,
    /// Relay at this address: connect clients to hosts that wait here with --through
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["http", "stdio", "stop", "resident"])]
    meet: Option<SocketAddr>,
    /// Wait for clients at a relay (https://BOX/NAME), in the working directory: for a machine without open ports
    #[arg(long, value_name = "URL", conflicts_with_all = ["http", "meet", "stdio", "stop", "resident"])]
    through: Option<String>,
    /// Require the token in this environment variable; with --through, the token of the relay
    #[arg(long, value_name = "VARIABLE")]
    token_env: Option<String>,
    /// Require the token in this file (default: one of Haft's own, created if missing)
    #[arg(long, value_name = "FILE", conflicts_with = "token_env")]
    token_file: Option<PathBuf>,
    /// Stop the process that serves clients over ssh, and what their sessions have running
    #[arg(long, conflicts_with_all = ["http", "resident"])]
    stop: bool,
    /// Serve clients over ssh until none was connected for a while; started by --stdio
    #[arg(long, hide = true, conflicts_with = "http")]
    resident: bool,
}

/// Default time after which the resident process ends when no session uses it.
const IDLE: Duration = Duration::from_secs(60);

/// Maximum number of concurrent connections with `--http`.
const MAX_CONNECTIONS: usize = 256;

/// Maximum number of concurrent connections of a relay: a few per waiting host, and one per
/// client.
const MAX_MEETINGS: usize = 4_096;

/// How long a client may take to send its request headers.
const HEADER_LIMIT: Duration = Duration::from_secs(15);

/// How long `--stop` waits for the resident process to end.
const STOP_LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &ToolHostArgs, options: &GlobalArgs) -> CommandExit {
    if args.stdio {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ended = runtime.block_on(stdio(options));
        // A blocking read of standard input cannot be cancelled, so do not wait for it.
        runtime.shutdown_background();
        return ended;
    }
    if args.resident {
        return session_spec::runtime()?.block_on(resident(options));
    }
    if args.http.is_some() {
        return session_spec::runtime()?.block_on(web(args, options));
    }
    if let Some(bind) = args.meet {
        return session_spec::runtime()?.block_on(meet(bind, args, options));
    }
    if let Some(url) = &args.through {
        return session_spec::runtime()?.block_on(through(url, args, options));
    }
    if args.token_env.is_some() || args.token_file.is_some() {
        return Err(CliError::Message(String::from(
            "--token-env and --token-file go with --http, --meet or --through",
        )));
    }
    status(args, options)
}

/// The directory of the tool host's socket, log and journals.
fn host_dir(premises: &SessionEnvironment) -> PathBuf {
    premises.state_dir().join("tool-host")
}

fn place(premises: &SessionEnvironment) -> Result<SocketPath, CliError> {
    let dir = host_dir(premises);
    SocketPath::below(&dir).map_err(|err| CliError::Message(format!("{}: {err}", dir.display())))
}

/// Relays standard input and output (an ssh connection) to the resident process, which holds the
/// sessions. Starts that process if necessary.
async fn stdio(options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let place = place(&premises)?;
    let log = host_dir(&premises).join("log");
    let start = || start_resident(&log);
    relay(&place, start, tokio::io::stdin(), tokio::io::stdout()).await?;
    Ok(ExitCode::SUCCESS)
}

fn start_resident(log: &Path) -> std::io::Result<()> {
    let log = File::options().create(true).append(true).mode(0o600).open(log)?;
    let program = PathBuf::from("/proc/self/exe");
    let program = if program.exists() { program } else { std::env::current_exe()? };
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let home = if home.is_dir() { home } else { PathBuf::from("/") };
    std::process::Command::new(program)
        .args(["tool-host", "--resident"])
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map(drop)
}

/// The resident process: holds the sessions of clients that connect over ssh. Ends after the idle time
/// or on a signal.
async fn resident(options: &GlobalArgs) -> CommandExit {
    // A new session, so that the process survives the end of the ssh connection that started it.
    rustix::process::setsid().ok();
    let premises = session_spec::premises(options)?;
    let place = place(&premises)?;
    let runs = runs(&premises, HostSessionFactory::new(session_spec::of_options(options)?, print_error));
    let idle = seconds(&premises, "HAFT_TOOL_HOST_IDLE", "idle").unwrap_or(IDLE);
    serve_socket(&place, runs, idle, stop_on_signal()?).await?;
    Ok(ExitCode::SUCCESS)
}

fn runs(premises: &SessionEnvironment, lender: HostSessionFactory) -> Arc<HostRunRegistry> {
    let usual = HostLimits::default();
    let linger = seconds(premises, "HAFT_TOOL_HOST_LINGER", "linger").unwrap_or(usual.linger);
    let limits = HostLimits { linger, ..usual };
    HostRunRegistry::new(host_dir(premises), Arc::new(lender), env!("CARGO_PKG_VERSION"), limits)
}

/// A duration in seconds from the variable, otherwise from `toolHost.<key>` in the settings.
fn seconds(premises: &SessionEnvironment, variable: &str, key: &str) -> Option<Duration> {
    let of_settings = || premises.loaded().settings.get("toolHost")?.value.get(key)?.as_f64();
    let said = premises.variables.text(variable).and_then(|it| it.trim().parse::<f64>().ok());
    Duration::try_from_secs_f64(said.or_else(of_settings)?).ok()
}

/// Serves clients over HTTP at an address.
async fn web(args: &ToolHostArgs, options: &GlobalArgs) -> CommandExit {
    let bind = args.http.unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
    let premises = session_spec::premises(options)?;
    let (token, from) = token(args, &premises)?;
    let runs = runs(
        &premises,
        HostSessionFactory::new(session_spec::of_options(options)?, print_error).restrict_to_spec_dir(),
    );
    let listener = TcpListener::bind(bind).await.map_err(|err| format!("{bind}: {err}"))?;
    let address = listener.local_addr()?;
    write_error(&format!("Serving {} at http://{address}/", premises.cwd.display()));
    write_error(&format!("The token is in {from}"));
    if !address.ip().is_loopback() {
        print_error("callers on other machines need https: put a server in front that speaks it");
    }
    let web = WebOptions { token, connections: MAX_CONNECTIONS, header_limit: HEADER_LIMIT };
    serve_web(listener, runs, web, stop_on_signal()?).await?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a relay: connects clients with the hosts that wait here.
async fn meet(bind: SocketAddr, args: &ToolHostArgs, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let (token, from) = token(args, &premises)?;
    let listener = TcpListener::bind(bind).await.map_err(|err| format!("{bind}: {err}"))?;
    let address = listener.local_addr()?;
    write_error(&format!("Hosts and callers meet at http://{address}/NAME"));
    write_error(&format!("The token of both is in {from}"));
    if !address.ip().is_loopback() {
        print_error("hosts and callers on other machines need https: put a server in front that speaks it");
    }
    let options = WebOptions { token, connections: MAX_MEETINGS, header_limit: HEADER_LIMIT };
    serve_meeting(listener, options, stop_on_signal()?).await?;
    Ok(ExitCode::SUCCESS)
}

/// Registers as a host at a relay and serves the clients it connects.
async fn through(url: &str, args: &ToolHostArgs, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let given = premises.variables.text("HAFT_HOST_TOKEN").filter(|it| !it.is_empty());
    let token = match (&args.token_env, &args.token_file, given) {
        (None, None, Some(token)) => token,
        (None, None, None) => {
            let what =
                "say which token the meeting point takes: --token-file, --token-env or HAFT_HOST_TOKEN";
            return Err(CliError::Message(what.to_owned()));
        }
        _ => token(args, &premises)?.0,
    };
    let usage = |err: HostAddressError| CliError::Message(err.to_string());
    let address = HostAddress::read(url).map_err(usage)?;
    let point = HostConfig::new(HostName::new("meeting").map_err(usage)?, address).with_token(token);
    let runs = runs(
        &premises,
        HostSessionFactory::new(session_spec::of_options(options)?, print_error).restrict_to_spec_dir(),
    );
    write_error(&format!("Serving {} through {}", premises.cwd.display(), point.address));
    let ended = serve_through(point, runs, stop_on_signal()?, print_error).await;
    ended.map_err(|why| CliError::Message(format!("{url}: {why}")))?;
    Ok(ExitCode::SUCCESS)
}

/// The token clients must send, and a description of where it comes from.
fn token(args: &ToolHostArgs, premises: &SessionEnvironment) -> Result<(String, String), CliError> {
    let (token, from) = match (&args.token_env, &args.token_file) {
        (Some(name), _) => {
            let token = std::env::var(name).map_err(|_| format!("--token-env: {name} is not set"))?;
            (token, format!("${name}"))
        }
        (None, Some(path)) => {
            let token = std::fs::read_to_string(path).map_err(|err| format!("{}: {err}", path.display()))?;
            (token, path.display().to_string())
        }
        (None, None) => {
            let dir = host_dir(premises);
            SocketPath::below(&dir).map_err(|err| format!("{}: {err}", dir.display()))?;
            own_token(&dir.join("token"))?
        }
    };
    let token = token.trim().to_owned();
    if token.is_empty() {
        Err(CliError::Message(format!("{from} holds no token")))
    } else {
        Ok((token, from))
    }
}

/// Reads the token of this machine from the file. Creates it on the first call.
fn own_token(path: &Path) -> Result<(String, String), CliError> {
    let failed = |err: std::io::Error| CliError::Message(format!("{}: {err}", path.display()));
    match File::options().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
            writeln!(file, "{token}").map_err(failed)?;
        }
        Err(err) if err.kind() == std::io::ErrorKind::AlreadyExists => (),
        Err(err) => return Err(failed(err)),
    }
    Ok((std::fs::read_to_string(path).map_err(failed)?, path.display().to_string()))
}

/// Prints whether the resident process runs, or stops it.
fn status(args: &ToolHostArgs, options: &GlobalArgs) -> CommandExit {
    let place = place(&*session_spec::premises(options)?)?;
    let Some(pid) = place.pid() else {
        print_line("no tool host runs; it starts when a caller comes over ssh")?;
        return Ok(ExitCode::SUCCESS);
    };
    if !args.stop {
        print_line(&format!("a tool host runs (process {pid}); `haft tool-host --stop` ends it"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let process = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let process = process.ok_or_else(|| format!("{pid} is no process"))?;
    rustix::process::kill_process(process, rustix::process::Signal::TERM)
        .map_err(|err| format!("process {pid} cannot be ended: {err}"))?;
    let begun = std::time::Instant::now();
    while place.pid() == Some(pid) {
        if STOP_LIMIT < begun.elapsed() {
            return Err(CliError::Message(format!("process {pid} does not end")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    print_line("the tool host has ended")?;
    Ok(ExitCode::SUCCESS)
}
