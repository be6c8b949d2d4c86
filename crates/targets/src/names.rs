//! Names under which programs send.

use std::collections::BTreeMap;

/// Who sends without a socket.
pub(crate) const IN_PROCESS: u64 = 0;

/// The names under which this process and the connections of a Unix socket send: each is that of one of them, of a connection until that
/// ends. Two programs of one name would be out of order to each other, and end each other's hold.
#[derive(Default)]
pub(crate) struct Names {
    /// [`IN_PROCESS`], or the number of a connection.
    owners: BTreeMap<String, u64>,
    connections: u64,
}

impl Names {
    /// The number of a new connection.
    pub fn connection(&mut self) -> u64 {
        self.connections += 1;
        self.connections
    }

    /// Whether it is the name of this one, or was free and is now.
    pub fn claim(&mut self, name: &str, by: u64) -> bool {
        match self.owners.get(name) {
            Some(owner) => *owner == by,
            None => self.owners.insert(name.to_owned(), by).is_none(),
        }
    }

    /// Those of a connection that has ended are free.
    pub fn free(&mut self, connection: u64) -> Vec<String> {
        let is_own = |(_, owner): &(&String, &u64)| **owner == connection;
        let own: Vec<String> = self.owners.iter().filter(is_own).map(|(name, _)| name.clone()).collect();
        own.iter().for_each(|name| _ = self.owners.remove(name));
        own
    }
}
