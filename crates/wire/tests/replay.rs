//! The fuzz targets without a fuzzer: every vector, every truncation and one-byte change of it, and random
//! bytes from a fixed seed, through every parser.

use crate::common::{bytes, text, vectors};

/// All byte strings and lines in the vectors.
fn seeds() -> Vec<Vec<u8>> {
    let files = [
        "varuints",
        "commands",
        "replies",
        "server",
        "streams",
        "discovery",
        "fdcanusb",
        "rs485",
        "pi3hat",
        "slcan",
        "damiao",
        "robstride",
        "robstride_mit",
        "cubemars",
        "rmd",
        "odrive",
        "dynamixel",
        "feetech",
    ];
    let mut seeds = Vec::new();
    for vector in files.iter().flat_map(|file| vectors(&format!("{file}.json"))) {
        for key in ["bytes", "request", "reply", "frame", "payload", "data"] {
            if vector[key].is_string() {
                seeds.push(bytes(&vector[key]));
            }
        }
        for reply in vector["replies"].as_array().into_iter().flatten() {
            seeds.push(bytes(reply));
        }
        if vector["line"].is_string() {
            seeds.push(format!("{}\r\n", text(&vector["line"])).into_bytes());
        }
    }
    assert!(seeds.len() > 100, "{}", seeds.len());
    seeds
}

fn everywhere(bytes: &[u8]) {
    for (_, entry_point) in crate::entry_points::ALL {
        entry_point(bytes);
    }
}

/// xorshift64*, so that a failure is the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize
    }
}

#[test]
fn every_truncation_of_every_vector() {
    for seed in seeds() {
        (0..=seed.len()).for_each(|len| everywhere(&seed[..len]));
    }
}

#[test]
fn changed_vectors() {
    let mut random = Random(1);
    for seed in seeds().into_iter().filter(|seed| !seed.is_empty()) {
        for _ in 0..100 {
            let mut changed = seed.clone();
            for _ in 0..1 + random.next() % 3 {
                let at = random.next() % changed.len();
                changed[at] = random.next() as u8;
            }
            everywhere(&changed);
        }
    }
}

#[test]
fn random_bytes_and_spliced_vectors() {
    let (seeds, mut random) = (seeds(), Random(2));
    for _ in 0..40_000 {
        let mut input: Vec<u8> = (0..random.next() % 80).map(|_| random.next() as u8).collect();
        if random.next() % 2 == 0 {
            input.extend(&seeds[random.next() % seeds.len()]);
            input.extend(&seeds[random.next() % seeds.len()]);
        }
        everywhere(&input);
    }
}
