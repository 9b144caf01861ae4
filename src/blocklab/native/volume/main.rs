//! blocklab-volume: a sparse file as a block device of one or more nodes, with a cloud volume's latency and limits.
//!
//! Takes one argument, a JSON object: `file`, `sockets` (a vhost-user socket for each node), `control` (a socket for
//! orders, see `control.rs`) and `profile` (see `profile.rs`). Runs until it is killed. Or, for a whole lab in virtual
//! time, `lab` (see `lab_control.rs`).

mod clock;
mod control;
mod frames;
mod json;
mod lab;
mod lab_control;
mod latency;
mod limits;
mod profile;
mod request;
mod ring;
mod server;
mod sys;
mod time;
mod vhost;
mod volume;
mod workers;

use std::fs::File;
use std::process::ExitCode;

use crate::clock::{Clock, Machine};
use crate::json::Value;
use crate::server::Server;
use crate::sys::listen;
use crate::volume::Volume;

const VERSION: &str = match option_env!("BLOCKLAB_VOLUME_VERSION") {
    Some(version) => version,
    None => "unknown",
};

fn run(text: &str) -> Result<(), String> {
    let config = Value::parse(text)?;
    if let Some(lab) = config.get("lab") {
        config.only(&["lab"])?;
        return lab_control::serve(lab);
    }
    config.only(&["file", "sockets", "control", "profile"])?;
    let name = config.get("file").ok_or("file is missing")?.text()?;
    let file =
        File::options().read(true).write(true).open(name).map_err(|error| format!("{name}: {error}"))?;
    let profile = config.get("profile").cloned().unwrap_or(json::map([]));
    // The control socket first: who sees the last node's socket sees all.
    let control = config.get("control").map(|path| path.text().and_then(listen)).transpose()?;
    let clock = Machine::new();
    let volume = Volume::new(file, profile, true, clock.now())?;
    let mut server = Server::new(clock, volume, control);
    for path in config.get("sockets").ok_or("sockets are missing")?.list()? {
        server.listen(listen(path.text()?)?);
    }
    server.run()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [argument] = &arguments[..] else {
        eprintln!("takes one argument: a JSON object, or --version");
        return ExitCode::from(2);
    };
    if argument == "--version" {
        println!("blocklab-volume {VERSION}");
        return ExitCode::SUCCESS;
    }
    match run(argument) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("blocklab-volume: {error}");
            ExitCode::FAILURE
        }
    }
}
