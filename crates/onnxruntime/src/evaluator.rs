//! One model, with either engine.

use crate::api::{LibraryError, Session};
use khz_policy::{Model, ModelError, Port};
use khz_settings::words;

words! {
    /// What evaluates a model.
    Engine {
        /// Kilohertz, if it knows all operators; else onnxruntime.
        Auto = "auto",
        /// Kilohertz: the same bits on every computer.
        Own = "own",
        /// onnxruntime, which is looked for when the model is read.
        Onnxruntime = "onnxruntime",
    }
}

/// Why a model is not evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The model is refused.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Kilohertz does not know all of it, and there is no onnxruntime that does.
    #[error("{refused}; {}{why}", if .why.was_asked() { "and " } else { "whether onnxruntime evaluates it is not known: " })]
    Neither {
        /// What is not known.
        refused: ModelError,
        /// What is wrong with onnxruntime.
        why: LibraryError,
    },
    /// onnxruntime cannot be used, or refuses the model.
    #[error(transparent)]
    Library(#[from] LibraryError),
}

/// A model with all the memory it needs.
#[derive(Debug)]
pub enum Evaluator {
    /// By Kilohertz. Neither allocates nor waits.
    Own(Box<Model>),
    /// By onnxruntime, which allocates and locks; and what is not evaluated here, if that is why.
    Library(Box<Session>, Option<String>),
}

impl Evaluator {
    /// Reads a model from the bytes of an ONNX file. What is damaged, or has numbers in other files, is refused with either engine.
    ///
    /// # Errors
    /// It cannot be evaluated by those who are wanted.
    pub fn load(bytes: &[u8], wanted: Engine) -> Result<Self, EngineError> {
        let refused = match (Model::parse(bytes), wanted) {
            (Ok(model), Engine::Auto | Engine::Own) => return Ok(Self::Own(Box::new(model))),
            (Ok(_), Engine::Onnxruntime) => return Ok(Self::Library(Box::new(Session::load(bytes)?), None)),
            (Err(refused), _) => refused,
        };
        let beyond = refused.beyond().filter(|_| wanted != Engine::Own);
        if beyond.is_none() {
            return Err(refused.into());
        }
        match Session::load(bytes) {
            Ok(session) => Ok(Self::Library(Box::new(session), beyond)),
            Err(why) => Err(EngineError::Neither { refused, why }),
        }
    }

    /// What evaluates it, and in which version.
    pub fn engine(&self) -> String {
        match self {
            Self::Own(_) => format!("own {}", env!("CARGO_PKG_VERSION")),
            Self::Library(session, _) => format!("onnxruntime {}", session.version()),
        }
    }

    /// What of it Kilohertz does not evaluate, where onnxruntime does for that.
    pub fn beyond(&self) -> Option<&str> {
        match self {
            Self::Own(_) => None,
            Self::Library(_, beyond) => beyond.as_deref(),
        }
    }

    /// Its inputs, in the order of the file.
    pub fn inputs(&self) -> &[Port] {
        match self {
            Self::Own(model) => model.inputs(),
            Self::Library(session, _) => session.inputs(),
        }
    }

    /// Its outputs, in the order of the file.
    pub fn outputs(&self) -> &[Port] {
        match self {
            Self::Own(model) => model.outputs(),
            Self::Library(session, _) => session.outputs(),
        }
    }

    /// The numbers of an input, 0 at first; they stay until they are changed. Does not allocate.
    ///
    /// # Panics
    /// If there is no such input.
    pub fn input_mut(&mut self, number: usize) -> &mut [f32] {
        match self {
            Self::Own(model) => model.input_mut(number),
            Self::Library(session, _) => session.input_mut(number),
        }
    }

    /// The numbers of an input as they are. Does not allocate.
    ///
    /// # Panics
    /// If there is no such input.
    pub fn input(&self, number: usize) -> &[f32] {
        match self {
            Self::Own(model) => model.input(number),
            Self::Library(session, _) => session.input(number),
        }
    }

    /// The numbers of an output as the last [`run`](Self::run) made them. Does not allocate.
    ///
    /// # Panics
    /// If there is no such output.
    pub fn output(&self, number: usize) -> &[f32] {
        match self {
            Self::Own(model) => model.output(number),
            Self::Library(session, _) => session.output(number),
        }
    }

    /// Evaluates it once.
    ///
    /// # Errors
    /// onnxruntime's error; Kilohertz itself has none here.
    pub fn run(&mut self) -> Result<(), LibraryError> {
        match self {
            Self::Own(model) => {
                model.run();
                Ok(())
            }
            Self::Library(session, _) => session.run(),
        }
    }

    /// An input has from now on what an output has. Does not allocate.
    ///
    /// # Panics
    /// If there is no such input or output, or they differ in length.
    pub fn carry(&mut self, output: usize, input: usize) {
        match self {
            Self::Own(model) => model.carry(output, input),
            Self::Library(session, _) => session.carry(output, input),
        }
    }

    /// Its operators, each with the number of nodes, where Kilohertz evaluates it.
    pub fn operators(&self) -> &[(String, usize)] {
        match self {
            Self::Own(model) => model.operators(),
            Self::Library(..) => &[],
        }
    }

    /// About how many multiplications one evaluation takes.
    pub fn work(&self) -> u64 {
        match self {
            Self::Own(model) => model.work(),
            Self::Library(session, _) => session.work(),
        }
    }
}
