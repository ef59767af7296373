//! PTX text as it grows, and its registers.

/// The registers of PTX that kernels use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Width {
    /// A predicate.
    Truth,
    /// 16 bits.
    Half,
    /// 32 bits.
    Single,
    /// 64 bits.
    Double,
}

/// How registers of each width are declared and named.
const REGISTERS: [(Width, &str, &str); 4] = [
    (Width::Truth, ".pred", "%p"),
    (Width::Half, ".b16", "%h"),
    (Width::Single, ".b32", "%r"),
    (Width::Double, ".b64", "%d"),
];

/// A function that is being written.
#[derive(Default)]
pub(super) struct Writer {
    text: String,
    counts: [usize; 4],
    labels: usize,
}

impl Writer {
    /// A register that nothing has been written to.
    pub fn fresh(&mut self, width: Width) -> String {
        let k = REGISTERS.iter().position(|r| r.0 == width).unwrap_or(0);
        self.counts[k] += 1;
        format!("{}{}", REGISTERS[k].2, self.counts[k] - 1)
    }

    /// A line of code.
    pub fn line(&mut self, code: impl AsRef<str>) {
        self.text += "\t";
        self.text += code.as_ref();
        self.text += "\n";
    }

    /// A line that writes a new register.
    pub fn set(&mut self, width: Width, code: impl FnOnce(&str) -> String) -> String {
        let register = self.fresh(width);
        self.line(code(&register));
        register
    }

    /// A name for a place in the code.
    pub fn label(&mut self) -> String {
        self.labels += 1;
        format!("$L{}", self.labels - 1)
    }

    /// The place of that name is here.
    pub fn place(&mut self, label: &str) {
        self.text += label;
        self.text += ":\n";
    }

    /// The lines, with the declarations before them.
    pub fn finish(self) -> String {
        let declared = |(k, (_, kind, name)): (usize, &(Width, &str, &str))| match self.counts[k] {
            0 => String::new(),
            count => format!("\t.reg {kind} {name}<{count}>;\n"),
        };
        REGISTERS.iter().enumerate().map(declared).collect::<String>() + &self.text
    }
}
