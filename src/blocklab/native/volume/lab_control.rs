//! Orders to a lab in virtual time, over the connection of its owner: a JSON object a line, followed by `n` bytes where
//! it says so. Each is answered by a JSON object a line; times are nanoseconds. Between orders the clock stands still.
//!
//! - `expect`: `node` was started: whether it has `come` `within` so many real nanoseconds.
//! - `type`: `node`, and the `n` bytes that its console takes.
//! - `run`: go on `until` then, or without it until something has to be told. The answer has `now`, `why` (`time`,
//!   `said`, `gone`, `hung`, `nothing`), with `node` where it is of one, and `said`, a list of node and length; the
//!   bytes follow it.
//! - `bury`: `node` was ended.
//! - `freeze`, `thaw`: `node` gets no turn for a while, and does not notice.
//! - `volume`: carry out `order` (`control.rs`) on that `volume`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use crate::clock::Nanos;
use crate::control::State;
use crate::json::{map, Value};
use crate::lab::{Lab, Port, Role, Why};
use crate::sys::{hide_cpu, listen};
use crate::vhost::Device;
use crate::volume::Volume;

/// Longer input is none of ours.
const MOST: usize = 1 << 24;

fn field<'a>(from: &'a Value, name: &str) -> Result<&'a Value, String> {
    from.get(name).ok_or_else(|| format!("{name} is missing"))
}

fn text<'a>(from: &'a Value, name: &str) -> Result<&'a str, String> {
    field(from, name)?.text()
}

fn whole(from: &Value, name: &str) -> Result<u64, String> {
    Ok(field(from, name)?.number()? as u64)
}

/// "02:0f:..." as six bytes.
fn mac(text: &str) -> Result<[u8; 6], String> {
    let bytes: Result<Vec<u8>, _> = text.split(':').map(|each| u8::from_str_radix(each, 16)).collect();
    bytes.ok().and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| format!("{text} is no MAC address"))
}

/// Make the lab of a configuration and obey its owner, who connects to `control`, until he is gone. `time`: where nodes
/// ask for turns; `volumes`: `file` and `profile`; `nodes`: `name` and `ports`, each with a `socket` and one of
/// `volume` (a number, perhaps `read_only`), `mac` with `mtu` and `peer` (socket of the far end), or `console`; `epoch`,
/// `wire`, `patience`: nanoseconds.
pub fn serve(config: &Value) -> Result<(), String> {
    config.only(&["control", "time", "volumes", "nodes", "epoch", "wire", "patience"])?;
    hide_cpu();
    let door = listen(text(config, "time")?)?;
    let mut sockets = Vec::new();
    for (number, node) in field(config, "nodes")?.list()?.iter().enumerate() {
        for port in field(node, "ports")?.list()? {
            sockets.push((number, port, listen(text(port, "socket")?)?));
        }
    }
    // Whoever sees this one sees all.
    let control = listen(text(config, "control")?)?;
    let owner = control.accept().map_err(|error| error.to_string())?.0;
    let [epoch, wire, patience] = [whole(config, "epoch")?, whole(config, "wire")?, whole(config, "patience")?];
    let names: Vec<&str> =
        field(config, "nodes")?.list()?.iter().map(|node| text(node, "name")).collect::<Result<_, _>>()?;
    let made = Lab::new(door, owner.as_raw_fd(), &names, epoch, wire, patience);
    let mut lab = made.map_err(|error| error.to_string())?;
    for volume in field(config, "volumes")?.list()? {
        let name = text(volume, "file")?;
        let write = volume.get("read_only").is_none();
        let file =
            File::options().read(true).write(write).open(name).map_err(|error| format!("{name}: {error}"))?;
        lab.add_volume(Volume::new(file, field(volume, "profile")?.clone(), false, 0)?);
    }
    let paths: Vec<&str> = sockets.iter().map(|(_, port, _)| text(port, "socket")).collect::<Result<_, _>>()?;
    for (node, port, listener) in &sockets {
        let (role, device) = role(&lab, port, &paths)?;
        let listener = listener.try_clone().map_err(|error| error.to_string())?;
        lab.ports.push(Port::new(*node, role, device, listener));
    }
    drop(sockets);
    obey(&mut lab, owner)
}

fn role(lab: &Lab, port: &Value, paths: &[&str]) -> Result<(Role, Device), String> {
    if port.get("volume").is_some() {
        let number = whole(port, "volume")? as usize;
        let volume = lab.volumes.get(number).ok_or_else(|| format!("there is no volume {number}"))?;
        let read_only = port.get("read_only").map_or(Ok(false), Value::truth)?;
        return Ok((Role::Disk(number), Device::Block { bytes: volume.size, read_only }));
    }
    if port.get("mac").is_some() {
        let peer = text(port, "peer")?;
        let far = paths.iter().position(|path| *path == peer).ok_or_else(|| format!("there is no port {peer}"))?;
        let mtu = whole(port, "mtu")? as u16;
        return Ok((Role::Card(far), Device::Net { mac: mac(text(port, "mac")?)?, mtu }));
    }
    Ok((Role::Console, Device::Console))
}

fn obey(lab: &mut Lab, owner: UnixStream) -> Result<(), String> {
    let said = |error: std::io::Error| error.to_string();
    let mut answers = owner.try_clone().map_err(said)?;
    let mut orders = BufReader::new(owner);
    loop {
        let mut line = String::new();
        if orders.read_line(&mut line).map_err(said)? == 0 {
            return Ok(());
        }
        let answer = Value::parse(&line).and_then(|order| {
            let mut bytes = vec![0; order.get("n").map_or(Ok(0.0), Value::number)? as usize];
            if bytes.len() > MOST {
                return Err(format!("n: more than {MOST} bytes"));
            }
            orders.read_exact(&mut bytes).map_err(said)?;
            carry_out(lab, &order, &bytes)
        });
        let (answer, bytes) = answer.unwrap_or_else(|error| {
            (map([("ok", Value::Bool(false)), ("error", Value::Text(error))]), Vec::new())
        });
        answers.write_all(&[format!("{answer}\n").into_bytes(), bytes].concat()).map_err(said)?;
    }
}

fn carry_out(lab: &mut Lab, order: &Value, bytes: &[u8]) -> Result<(Value, Vec<u8>), String> {
    let fine = || (map([("ok", Value::Bool(true))]), Vec::new());
    let node = |lab: &Lab| Ok::<usize, String>(lab.node(text(order, "node")?)?);
    match text(order, "op")? {
        "expect" => {
            let come = lab.expect(node(lab)?, whole(order, "within")?);
            Ok((map([("ok", Value::Bool(true)), ("come", Value::Bool(come))]), Vec::new()))
        }
        "type" => {
            let node = node(lab)?;
            lab.type_in(node, bytes);
            Ok(fine())
        }
        "run" => {
            let until = order.get("until").map_or(Ok(Nanos::MAX), |_| whole(order, "until"))?;
            let why = lab.run(until);
            Ok(ended(lab, why))
        }
        "bury" => {
            let node = node(lab)?;
            lab.bury(node);
            Ok(fine())
        }
        what @ ("freeze" | "thaw") => {
            let node = node(lab)?;
            lab.nodes[node].frozen = what == "freeze";
            Ok(fine())
        }
        "volume" => {
            let (number, now) = (whole(order, "volume")? as usize, lab.now);
            let volume = lab.volumes.get_mut(number).ok_or_else(|| format!("there is no volume {number}"))?;
            let answer = volume.order(field(order, "order")?, now, State::default())?;
            lab.changed(number);
            Ok((answer, Vec::new()))
        }
        other => Err(format!("unknown op {other}")),
    }
}

fn ended(lab: &mut Lab, why: Why) -> (Value, Vec<u8>) {
    let (word, node) = match why {
        Why::Time => ("time", None),
        Why::Said => ("said", None),
        Why::Nothing => ("nothing", None),
        Why::Gone(node) => ("gone", Some(node)),
        Why::Hung(node) => ("hung", Some(node)),
    };
    let name = |node: usize| Value::Text(lab.nodes[node].name.clone());
    let list = |node: usize, bytes: &[u8]| Value::List(vec![name(node), Value::from(bytes.len() as u64)]);
    let answer = map([
        ("ok", Value::Bool(true)),
        ("now", Value::from(lab.now)),
        ("why", Value::Text(word.into())),
        ("node", node.map_or(Value::Null, name)),
        ("said", Value::List(lab.said.iter().map(|(node, bytes)| list(*node, bytes)).collect())),
    ]);
    let bytes = lab.said.drain(..).flat_map(|(_, bytes)| bytes).collect();
    (answer, bytes)
}
