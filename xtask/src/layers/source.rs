//! The paths a source file names, read from its tokens; what stands in tests is left out.

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use syn::Item;

/// `["crate", "config", "Mode"]`; a glob ends in `"*"`, and `::name` begins with an empty name.
pub(super) type NamePath = Vec<String>;

/// One source file of a crate.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// From the root of the repository: `crates/file/src/config/bus.rs`.
    pub file: String,
    /// Its module: `["config", "bus"]`; empty for the root of the crate.
    pub module: Vec<String>,
    /// Every path of at least two names, as written, but for `exports`.
    pub names: BTreeSet<NamePath>,
    /// The paths it hands on by `pub use`.
    pub exports: BTreeSet<NamePath>,
    /// The items it defines, by macros too.
    pub defines: BTreeSet<String>,
    /// What its `use` items bring in.
    pub imports: BTreeSet<NamePath>,
    /// Modules that exist only in tests.
    test_modules: Vec<String>,
}

/// The sources of a crate in `folder` of `root`.
///
/// # Errors
/// A file cannot be read, or is no Rust.
pub(super) fn read_crate(root: &Path, folder: &Path) -> Result<Vec<Source>> {
    let src = folder.join("src");
    let mut sources = Vec::new();
    for file in rust_files(&src)? {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let module = module_of(file.strip_prefix(&src)?);
        let name = file.strip_prefix(root)?.to_string_lossy().into_owned();
        sources.push(Source::parse(name, module, &text)?);
    }
    let tests: Vec<Vec<String>> = sources.iter().flat_map(Source::modules_of_tests).collect();
    sources.retain(|source| !tests.iter().any(|test| source.module.starts_with(test)));
    Ok(sources)
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// `config/mod.rs` and `config.rs` are `["config"]`.
fn module_of(file: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|last| last == "mod")
        || (names.len() == 1 && (names[0] == "lib" || names[0] == "main"))
    {
        names.pop();
    }
    names
}

impl Source {
    pub fn parse(file: String, module: Vec<String>, text: &str) -> Result<Self> {
        let parsed = syn::parse_file(text).with_context(|| format!("{file} is no Rust"))?;
        let mut source = Self { file, module, ..Self::default() };
        for item in &parsed.items {
            source.item(item);
        }
        Ok(source)
    }

    fn item(&mut self, item: &Item) {
        if is_for_tests(item) {
            if let Item::Mod(module) = item {
                self.test_modules.push(module.ident.to_string());
            }
            return;
        }
        self.defines.extend(defined(item));
        let mut found = BTreeSet::new();
        paths(item.to_token_stream(), &[], &mut found);
        if let Item::Use(item) = item {
            self.imports.extend(found.iter().cloned());
            // A front page that hands on what its children have does not need them.
            if !matches!(item.vis, syn::Visibility::Inherited) {
                self.exports.append(&mut found);
            }
        }
        self.names.append(&mut found);
    }

    fn modules_of_tests(&self) -> impl Iterator<Item = Vec<String>> {
        self.test_modules.iter().map(|name| [self.module.as_slice(), std::slice::from_ref(name)].concat())
    }
}

fn is_for_tests(item: &Item) -> bool {
    let (Item::Mod(syn::ItemMod { attrs, .. })
    | Item::Fn(syn::ItemFn { attrs, .. })
    | Item::Use(syn::ItemUse { attrs, .. })
    | Item::Impl(syn::ItemImpl { attrs, .. })) = item
    else {
        return false;
    };
    attrs.iter().any(|attribute| {
        let text = attribute.meta.to_token_stream().to_string().replace(' ', "");
        text == "cfg(test)"
    })
}

/// The names an item defines. A macro's are taken to be the words between its groups: `section! { Name { … } }`.
fn defined(item: &Item) -> Vec<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => match &item.ident {
            Some(ident) => ident,
            None => return words(item.mac.tokens.clone()),
        },
        _ => return Vec::new(),
    };
    vec![ident.to_string()]
}

fn words(tokens: TokenStream) -> Vec<String> {
    tokens.into_iter().filter_map(|token| word(&token)).collect()
}

fn word(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        _ => None,
    }
}

fn is_punct(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// Collects every path in `tokens`. Within the braces of a `use`, `before` is what stands before them.
fn paths(tokens: TokenStream, before: &[String], found: &mut BTreeSet<NamePath>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        let Some(first) = word(&tokens[at]) else {
            if let TokenTree::Group(group) = &tokens[at] {
                paths(group.stream(), &[], found);
            }
            at += 1;
            continue;
        };
        let mut path = before.to_vec();
        // `::name`: the crate of this name, not a module beside.
        if at > 1 && path.is_empty() && is_punct(tokens.get(at - 1), ':') && is_punct(tokens.get(at - 2), ':')
        {
            path.push(String::new());
        }
        // `use a::{self, b as c}`: `self` is `a`, `c` is a name of this file only.
        let renamed = at > 0 && word(&tokens[at - 1]).is_some_and(|word| word == "as");
        let is_prefix = first == "self" && !before.is_empty();
        if first != "as" && !renamed && !is_prefix {
            path.push(first);
        }
        at += 1;
        while is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':') {
            at += 2;
            match tokens.get(at) {
                Some(TokenTree::Ident(name)) => path.push(name.to_string()),
                Some(TokenTree::Punct(star)) if star.as_char() == '*' => path.push("*".into()),
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    paths(group.stream(), &path, found);
                }
                _ => break,
            }
            at += 1;
        }
        if path.len() > 1 && !renamed {
            found.insert(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let source = Source::parse("x.rs".into(), Vec::new(), text).expect("Rust");
        source.names.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn paths_are_found_in_uses_bodies_and_macros() {
        assert_eq!(names("use a::{self, b::{C, d as e}, f::*};"), ["a::b", "a::b::C", "a::b::d", "a::f::*"]);
        assert_eq!(names("fn f() { g(crate::h::I::new()) }"), ["crate::h::I::new"]);
        assert_eq!(names("m! { x: a::b, [c::d] }"), ["a::b", "c::d"]);
    }

    #[test]
    fn tests_are_left_out() {
        assert_eq!(names("#[cfg(test)] mod tests { use a::b; }"), [""; 0]);
    }

    #[test]
    fn macros_define_names() {
        let source = Source::parse("x.rs".into(), Vec::new(), "section! { /// it\n Name { a: u8; } }");
        assert!(source.expect("Rust").defines.contains("Name"));
    }
}
