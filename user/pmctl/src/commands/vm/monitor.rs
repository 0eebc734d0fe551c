// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's monitor: commands and answers in JSON, a line each (QMP).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// A connection to a monitor.
pub(super) struct Monitor {
    socket: BufReader<UnixStream>,
}

impl Monitor {
    /// Begins to talk to the monitor.
    pub(super) fn new(socket: UnixStream) -> Result<Self> {
        let mut monitor = Self {
            socket: BufReader::new(socket),
        };
        monitor.line()?;
        monitor.execute("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// Executes a command.
    fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        let request = json!({ "execute": command, "arguments": arguments });
        let sent = writeln!(self.socket.get_mut(), "{request}");
        sent.context("QEMU is gone")?;
        loop {
            let mut answer = self.line()?;
            if let Some(error) = answer.get("error") {
                bail!("QEMU refuses {command}: {}", error["desc"]);
            }
            // Other lines are events.
            if let Some(result) = answer.get_mut("return") {
                return Ok(result.take());
            }
        }
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        let length = self
            .socket
            .read_line(&mut line)
            .context("can't listen to QEMU")?;
        if length == 0 {
            bail!("QEMU is gone");
        }
        serde_json::from_str(&line).context("QEMU's answer is no JSON")
    }

    /// Saves the machine's state into a file, but for its memory, which is in a file already.
    pub(super) fn save(&mut self, uri: &str) -> Result<()> {
        self.leave_memory()?;
        self.execute("stop", &json!({}))?;
        self.execute("migrate", &json!({ "uri": uri }))?;
        self.wait()
    }

    /// Lets a machine that waits for it go on from a saved state.
    pub(super) fn restore(&mut self, uri: &str) -> Result<()> {
        self.leave_memory()?;
        self.execute("migrate-incoming", &json!({ "uri": uri }))?;
        self.wait()
    }

    /// Waits until a state is written or read.
    fn wait(&mut self) -> Result<()> {
        loop {
            let state = self.execute("query-migrate", &json!({}))?;
            match state["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => bail!(
                    "QEMU can't move the machine's state: {}",
                    state["error-desc"]
                ),
                _ => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn leave_memory(&mut self) -> Result<()> {
        let capability = json!({ "capability": "x-ignore-shared", "state": true });
        self.execute(
            "migrate-set-capabilities",
            &json!({ "capabilities": [capability] }),
        )
        .map(drop)
    }
}
