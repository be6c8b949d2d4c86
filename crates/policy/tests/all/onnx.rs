//! Writes ONNX files, sound ones and others.

/// A field with bytes: a message, text or raw numbers.
pub(crate) fn bytes(number: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

/// A field with a whole number.
pub(crate) fn int(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

/// A field with a float.
pub(crate) fn float(number: u64, value: f32) -> Vec<u8> {
    [varint(number << 3 | 5), value.to_le_bytes().to_vec()].concat()
}

pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut written = Vec::new();
    while value >= 0x80 {
        written.push(value as u8 | 0x80);
        value >>= 7;
    }
    written.push(value as u8);
    written
}

/// What a graph is made of; each function adds to it.
#[derive(Clone, Default)]
pub(crate) struct Graph(Vec<u8>);

impl Graph {
    pub(crate) fn input(self, name: &str, shape: &[u64]) -> Self {
        self.port(11, name, shape)
    }

    pub(crate) fn output(self, name: &str, shape: &[u64]) -> Self {
        self.port(12, name, shape)
    }

    fn port(self, number: u64, name: &str, shape: &[u64]) -> Self {
        let sizes: Vec<u8> = shape.iter().flat_map(|&size| bytes(1, &int(1, size))).collect();
        let tensor = [int(1, 1), bytes(2, &sizes)].concat();
        self.with(number, &[bytes(1, name.as_bytes()), bytes(2, &bytes(1, &tensor))].concat())
    }

    pub(crate) fn floats(self, name: &str, shape: &[u64], values: &[f32]) -> Self {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, shape, &[int(2, 1), bytes(9, &raw)].concat())
    }

    pub(crate) fn ints(self, name: &str, values: &[i64]) -> Self {
        let packed: Vec<u8> = values.iter().flat_map(|&value| varint(value.cast_unsigned())).collect();
        self.tensor(name, &[values.len() as u64], &[int(2, 7), bytes(7, &packed)].concat())
    }

    /// A constant whose type and numbers are these fields.
    pub(crate) fn tensor(self, name: &str, shape: &[u64], fields: &[u8]) -> Self {
        let sizes: Vec<u8> = shape.iter().flat_map(|&size| int(1, size)).collect();
        self.with(5, &[&sizes, fields, &bytes(8, name.as_bytes())].concat())
    }

    pub(crate) fn node(self, operator: &str, inputs: &[&str], outputs: &[&str]) -> Self {
        self.node_with(operator, inputs, outputs, &[])
    }

    /// A node with fields of its own: attributes, a domain.
    pub(crate) fn node_with(
        self,
        operator: &str,
        inputs: &[&str],
        outputs: &[&str],
        more: &[Vec<u8>],
    ) -> Self {
        let names = |number, names: &[&str]| -> Vec<u8> {
            names.iter().flat_map(|name| bytes(number, name.as_bytes())).collect()
        };
        let operator = bytes(4, operator.as_bytes());
        self.with(1, &[names(1, inputs), names(2, outputs), operator, more.concat()].concat())
    }

    pub(crate) fn with(mut self, number: u64, field: &[u8]) -> Self {
        self.0.extend(bytes(number, field));
        self
    }

    pub(crate) fn file(self) -> Vec<u8> {
        self.file_of(17)
    }

    pub(crate) fn file_of(self, opset: u64) -> Vec<u8> {
        self.file_saying(opset, &[("run_path", "tests/one")])
    }

    /// With these metadata.
    pub(crate) fn file_saying(self, opset: u64, metadata: &[(&str, &str)]) -> Vec<u8> {
        let entry = |(key, value): &(&str, &str)| {
            bytes(14, &[bytes(1, key.as_bytes()), bytes(2, value.as_bytes())].concat())
        };
        let metadata: Vec<u8> = metadata.iter().flat_map(entry).collect();
        [int(1, 8), bytes(2, b"tests"), bytes(7, &self.0), bytes(8, &int(2, opset)), metadata].concat()
    }
}

/// An attribute with a whole number.
pub(crate) fn whole(name: &str, value: i64) -> Vec<u8> {
    bytes(5, &[bytes(1, name.as_bytes()), int(3, value.cast_unsigned()), int(20, 2)].concat())
}

/// An attribute with a float.
pub(crate) fn real(name: &str, value: f32) -> Vec<u8> {
    bytes(5, &[bytes(1, name.as_bytes()), float(2, value), int(20, 1)].concat())
}
