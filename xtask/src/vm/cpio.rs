//! Writing a `newc` cpio archive, the form the kernel unpacks as its first file system
//! (Linux `Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::collections::BTreeSet;

/// An archive that grows file by file; folders are made as needed.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    /// Adds a file that everybody may run.
    pub fn program(&mut self, path: &str, content: &[u8]) {
        self.folders_of(path);
        self.entry(path, 0o100_755, content);
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn folders_of(&mut self, path: &str) {
        for (at, _) in path.match_indices('/') {
            let folder = path[..at].to_owned();
            if self.folders.insert(folder.clone()) {
                self.entry(&folder, 0o040_755, &[]);
            }
        }
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let (size, name_size) = (content.len() as u32, name.len() as u32 + 1);
        // inode, mode, uid, gid, links, time, size, device (2), special device (2), name size, checksum
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        fields.iter().for_each(|field| self.bytes.extend_from_slice(format!("{field:08x}").as_bytes()));
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_what_is_in_them_and_only_once() {
        let mut archive = Archive::default();
        archive.program("a/b/one", b"1");
        archive.program("a/b/two", b"22222");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        let names: Vec<&str> = text.split("070701").skip(1).map(name).collect();
        assert_eq!(names, ["a", "a/b", "a/b/one", "a/b/two", "TRAILER!!!"]);
        assert_eq!(bytes.len() % 4, 0);
    }

    fn name(entry: &str) -> &str {
        entry[104..].split('\0').next().unwrap_or_default()
    }
}
