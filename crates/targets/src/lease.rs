//! Which program has the robot: one at a time, as long as it sends.

/// A program that wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its place among the programs.
    pub place: usize,
    /// 0 to 9. A higher one takes it from a lower one.
    pub priority: u8,
    /// Takes it from one of the same priority.
    pub takes: bool,
}

/// Who has it, and until when alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lease {
    holder: Option<Claim>,
    until_ns: i64,
}

impl Lease {
    /// The place of the program that has it.
    pub fn holder(&self) -> Option<usize> {
        self.holder.map(|holder| holder.place)
    }

    /// Whether this one may have it now.
    ///
    /// # Errors
    /// The place of the program that keeps it.
    pub fn check(&self, claim: Claim, now_ns: i64) -> Result<(), usize> {
        let others = self.holder.filter(|holder| holder.place != claim.place && now_ns <= self.until_ns);
        let is_stronger = |holder: &Claim| {
            claim.priority > holder.priority || (claim.takes && claim.priority == holder.priority)
        };
        match others.filter(|holder| !is_stronger(holder)) {
            Some(holder) => Err(holder.place),
            None => Ok(()),
        }
    }

    /// This one has it, alone until `until_ns`.
    pub fn take(&mut self, claim: Claim, until_ns: i64) {
        *self = Self { holder: Some(claim), until_ns };
    }

    /// No program has it any more.
    pub fn release(&mut self) {
        self.holder = None;
    }
}
