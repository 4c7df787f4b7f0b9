//! Virtual machines: network namespaces connected by a bridge.

use std::{
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use super::skip;

/// A MAC address that belongs to no machine, to drop frames.
const NOBODY: &str = "02:00:00:00:00:01";

/// A network of several machines, including this one.
pub struct FarNet {
    number: u32,
    machines: u32,
}

/// A program on one of the machines; killed with the test.
pub struct FarProcess(pub Child);

impl Drop for FarProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ip(line: &str) -> bool {
    Command::new("ip").args(line.split(' ')).output().is_ok_and(|it| it.status.success())
}

impl FarNet {
    /// Returns `None` with a message if namespaces are not available.
    pub fn make(machines: u32) -> Option<Self> {
        // Concurrent tests use other networks.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let first = std::process::id() + NEXT.fetch_add(1, Ordering::Relaxed);
        let free = (0..200)
            .map(|it| (first + it) % 200 + 20)
            .find(|it| ip(&format!("link add haftb{it} type bridge")));
        let Some(number) = free else {
            skip("no network namespaces here: cut networks are not tried");
            return None;
        };
        let net = Self { number, machines };
        let is_up = ip(&format!("addr add 10.213.{number}.1/24 dev haftb{number}"))
            && ip(&format!("link set haftb{number} up"))
            && (0..machines).all(|machine| net.add(machine));
        if is_up {
            return Some(net);
        }
        drop(net);
        skip("no network namespaces here: cut networks are not tried");
        None
    }

    fn add(&self, machine: u32) -> bool {
        let (number, space, near) = (self.number, self.space(machine), self.link(machine));
        ip(&format!("netns add {space}"))
            && ip(&format!("link add {near} type veth peer name eth0 netns {space}"))
            && ip(&format!("link set {near} master haftb{number} up"))
            && ip(&format!("-n {space} addr add {}/24 dev eth0", self.address(machine)))
            && ip(&format!("-n {space} link set eth0 up"))
            && ip(&format!("-n {space} link set lo up"))
    }

    fn space(&self, machine: u32) -> String {
        format!("haft{}x{machine}", self.number)
    }

    fn link(&self, machine: u32) -> String {
        format!("haft{}v{machine}", self.number)
    }

    pub fn address(&self, machine: u32) -> String {
        format!("10.213.{}.{}", self.number, 10 + machine)
    }

    /// Returns a command that runs on a machine.
    pub fn command(&self, machine: u32, program: &std::path::Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(machine)]).arg(program);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Drops all traffic from and to a machine.
    pub fn unplug(&self, machine: u32) {
        assert!(ip(&format!("link set {} down", self.link(machine))));
    }

    pub fn plug(&self, machine: u32) {
        assert!(ip(&format!("link set {} up", self.link(machine))));
    }

    /// Drops traffic from one machine to another; the other direction works.
    pub fn cut(&self, from: u32, to: u32) {
        let (space, to) = (self.space(from), self.address(to));
        assert!(ip(&format!("-n {space} neigh replace {to} lladdr {NOBODY} dev eth0 nud permanent")));
    }

    pub fn heal(&self, from: u32, to: u32) {
        let (space, to) = (self.space(from), self.address(to));
        assert!(ip(&format!("-n {space} neigh del {to} dev eth0")));
    }
}

impl Drop for FarNet {
    fn drop(&mut self) {
        for machine in 0..self.machines {
            ip(&format!("link del {}", self.link(machine)));
            ip(&format!("netns del {}", self.space(machine)));
        }
        ip(&format!("link del haftb{}", self.number));
    }
}
