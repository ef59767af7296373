//! Hosts that are network namespaces of this machine, joined by a switch: ranks on different ones have different host
//! names and reach each other by TCP alone.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::{Folder, ranks};

/// Some hosts, gone when this is dropped.
pub struct Hosts {
    prefix: String,
    count: usize,
    folder: Folder,
}

impl Hosts {
    /// `count` hosts; `name` has to be unique among the tests of the process. `None`, with a line that says why, where
    /// namespaces may not be made.
    pub fn new(name: &str, count: usize) -> Option<Hosts> {
        let folder = Folder::new(&format!("hosts_{name}"));
        let hosts = Hosts { prefix: format!("mw{}{name}", std::process::id()), count, folder };
        match hosts.build() {
            Ok(()) => Some(hosts),
            Err(why) => {
                eprintln!("skipped {name}: no network namespaces here ({why})");
                None
            }
        }
    }

    fn build(&self) -> Result<(), String> {
        let switch = self.switch();
        ip(&["netns", "add", &switch])?;
        ip(&["-n", &switch, "link", "add", "switch", "type", "bridge"])?;
        ip(&["-n", &switch, "link", "set", "switch", "up"])?;
        for i in 0..self.count {
            let (host, port, address) = (self.host(i), self.port(i), format!("{}/24", self.address(i)));
            ip(&["netns", "add", &host])?;
            ip(&["link", "add", "eth0", "netns", &host, "type", "veth", "peer", "name", &port, "netns", &switch])?;
            ip(&["-n", &switch, "link", "set", &port, "master", "switch"])?;
            ip(&["-n", &switch, "link", "set", &port, "up"])?;
            ip(&["-n", &host, "addr", "add", &address, "dev", "eth0"])?;
            ip(&["-n", &host, "link", "set", "lo", "up"])?;
            ip(&["-n", &host, "link", "set", "eth0", "up"])?;
        }
        done(Command::new("unshare").args(["--uts", "true"]))?;
        // What `mpirun` starts in place of `ssh HOST COMMAND`; an address ends in the number of its host.
        let agent = format!(
            "#!/bin/sh\nhost={}${{1##*.}}\nshift\nexec ip netns exec $host unshare --uts sh -c \"hostname $host; $*\"\n",
            self.prefix
        );
        let path = self.folder.path().join("agent");
        let written = std::fs::write(&path, agent);
        written
            .and_then(|()| std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)))
            .map_err(|e| e.to_string())
    }

    fn switch(&self) -> String {
        format!("{}switch", self.prefix)
    }

    fn host(&self, i: usize) -> String {
        format!("{}{}", self.prefix, i + 1)
    }

    fn port(&self, i: usize) -> String {
        format!("port{i}")
    }

    fn address(&self, i: usize) -> String {
        format!("10.77.0.{}", i + 1)
    }

    /// `mpirun` on the first host, with `each` ranks on every host in turn; the program is still missing.
    pub fn mpirun(&self, each: usize) -> Command {
        let host = self.host(0);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &host, "unshare", "--uts", "sh", "-c"]);
        command.args(["hostname $0; exec \"$@\"", &host]);
        let ranks = ranks::mpirun(each * self.count);
        command.arg(ranks.get_program()).args(ranks.get_args());
        for (name, value) in ranks.get_envs() {
            value.map(|value| command.env(name, value));
        }
        let places: Vec<String> = (0..self.count).map(|i| format!("{}:{each}", self.address(i))).collect();
        // The launcher does not know that all hosts share the cores of this machine.
        command.args(["--mca", "mpi_yield_when_idle", "1"]);
        command.args(["--host", &places.join(","), "--mca", "plm_rsh_agent"]).arg(self.folder.path().join("agent"));
        for network in ["oob_tcp_if_include", "btl_tcp_if_include"] {
            command.args(["--mca", network, "10.77.0.0/24"]);
        }
        command
    }

    /// The command that runs the test `name` of this binary, with `each` ranks on every host.
    pub fn command(&self, each: usize, name: &str) -> Command {
        let mut command = self.mpirun(each);
        ranks::add_test(&mut command, name);
        command
    }

    /// Cuts the link of a host to the others.
    pub fn cut(&self, host: usize) {
        self.set_link(host, "down");
    }

    /// Restores the link of a host.
    pub fn join(&self, host: usize) {
        self.set_link(host, "up");
    }

    fn set_link(&self, host: usize, state: &str) {
        ip(&["-n", &self.switch(), "link", "set", &self.port(host), state]).expect("the link of a host is set");
    }

    /// Makes what a host sends late and partly lost, as `tc` takes it (`delay 5ms loss 1%`); an error where the kernel
    /// cannot.
    pub fn disturb(&self, host: usize, how: &str) -> Result<(), String> {
        let host = self.host(host);
        done(
            Command::new("tc").args(["-n", &host, "qdisc", "add", "dev", "eth0", "root", "netem"]).args(how.split(' ')),
        )
    }

    /// The processes of a host.
    pub fn processes(&self, host: usize) -> Vec<String> {
        let output = Command::new("ip").args(["netns", "pids", &self.host(host)]).output();
        let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
        text.split_whitespace().map(String::from).collect()
    }

    /// Ends a host: its link is cut and everything on it killed.
    pub fn lose(&self, host: usize) {
        self.cut(host);
        self.kill(host);
    }

    fn kill(&self, host: usize) {
        let processes = self.processes(host);
        if !processes.is_empty() {
            let _ = Command::new("kill").arg("-9").args(processes).output();
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for i in 0..self.count {
            self.kill(i);
            let _ = ip(&["netns", "del", &self.host(i)]);
        }
        let _ = ip(&["netns", "del", &self.switch()]);
    }
}

/// In the test `name`: runs `body` on each number of hosts, with four ranks in all, and checks that every rank reached
/// its end.
pub fn across(hosts: &[usize], name: &str, body: impl FnOnce()) {
    if ranks::is_rank() {
        return ranks::as_rank(body);
    }
    for &count in hosts {
        let Some(hosts) = Hosts::new(&format!("c{count}"), count) else { return };
        let (done, each) = (Folder::new(&format!("{name}_{count}")), 4 / count);
        ranks::check_all_end(&mut hosts.command(each, name), each * count, &done);
    }
}

fn ip(args: &[&str]) -> Result<(), String> {
    done(Command::new("ip").args(args))
}

fn done(command: &mut Command) -> Result<(), String> {
    let what = || command_line(command);
    let text = |output: &Output| String::from_utf8_lossy(&output.stderr).trim().to_string();
    match Command::new(command.get_program()).args(command.get_args()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{}: {}", what(), text(&output))),
        Err(e) => Err(format!("{}: {e}", what())),
    }
}

fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
