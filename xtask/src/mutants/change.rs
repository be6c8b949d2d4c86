//! A file with all its mutants in it, each behind `crate::mutant(number)`.

use anyhow::{Context, Result};
use quote::{ToTokens, quote};
use syn::{
    Arm, BinOp, Block, Expr, ImplItem, Item, Pat, ReturnType, Signature, Stmt, Type, UnOp, parse_quote,
};

/// The text of `file`, changed. What each mutant is, is added to `mutants`; its place there is its number.
///
/// # Errors
/// It is no Rust.
pub fn changed(text: &str, file: &str, mutants: &mut Vec<String>) -> Result<String> {
    let mut parsed = syn::parse_file(text).with_context(|| format!("{file} is no Rust"))?;
    let mut changer = Changer { file, function: String::new(), mutants };
    parsed.items.iter_mut().for_each(|item| changer.item(item));
    Ok(format!("#![allow(warnings)]\n{}", parsed.into_token_stream()))
}

struct Changer<'a> {
    file: &'a str,
    function: String,
    mutants: &'a mut Vec<String>,
}

impl Changer<'_> {
    /// The condition under which a new mutant runs.
    fn mutant(&mut self, what: &str) -> Expr {
        let number = self.mutants.len() as u32;
        self.mutants.push(format!("{} {}: {what}", self.file, self.function));
        parse_quote!(crate::mutant(#number))
    }

    fn item(&mut self, item: &mut Item) {
        match item {
            Item::Fn(function) => self.function(&mut function.sig, &mut function.block),
            Item::Impl(block) => {
                for item in &mut block.items {
                    if let ImplItem::Fn(function) = item {
                        self.function(&mut function.sig, &mut function.block);
                    }
                }
            }
            _ => {}
        }
    }

    fn function(&mut self, signature: &mut Signature, block: &mut Block) {
        self.function = signature.ident.to_string();
        // What is decided when the program runs is no constant.
        signature.constness = None;
        self.block(block);
        for value in values(&signature.output) {
            let condition = self.mutant(&format!("returns {}", value.to_token_stream()));
            block.stmts.insert(0, parse_quote!(if #condition { return #value; }));
        }
    }

    fn block(&mut self, block: &mut Block) {
        for statement in &mut block.stmts {
            match statement {
                Stmt::Local(local) => {
                    if let Some(init) = &mut local.init {
                        self.expr(&mut init.expr);
                        init.diverge.iter_mut().for_each(|(_, diverge)| self.expr(diverge));
                    }
                }
                Stmt::Expr(expr, _) => self.expr(expr),
                _ => {}
            }
        }
    }

    fn all<'e>(&mut self, exprs: impl IntoIterator<Item = &'e mut Expr>) {
        exprs.into_iter().for_each(|expr| self.expr(expr));
    }

    /// Mutants of an expression, and of all within it.
    fn expr(&mut self, expr: &mut Expr) {
        let original = expr.clone();
        self.within(expr);
        match original {
            Expr::Binary(binary) if !has_let(&binary.left) && !has_let(&binary.right) => {
                for op in others(binary.op) {
                    let mut other = binary.clone();
                    other.op = op;
                    self.instead(expr, &binary.to_token_stream(), &Expr::Binary(other));
                }
            }
            Expr::Unary(unary) if !matches!(unary.op, UnOp::Deref(_)) => {
                self.instead(expr, &unary.to_token_stream(), &unary.expr);
            }
            _ => {}
        }
    }

    fn within(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Binary(binary) => self.all([&mut *binary.left, &mut *binary.right]),
            Expr::Unary(unary) => self.expr(&mut unary.expr),
            Expr::Paren(inner) => self.expr(&mut inner.expr),
            Expr::Reference(inner) => self.expr(&mut inner.expr),
            Expr::Field(field) => self.expr(&mut field.base),
            Expr::Try(inner) => self.expr(&mut inner.expr),
            Expr::Cast(inner) => self.expr(&mut inner.expr),
            Expr::Let(inner) => self.expr(&mut inner.expr),
            Expr::Closure(closure) => self.expr(&mut closure.body),
            Expr::Index(index) => self.all([&mut *index.expr, &mut *index.index]),
            Expr::Assign(assign) => self.expr(&mut assign.right),
            Expr::MethodCall(call) => {
                self.expr(&mut call.receiver);
                self.all(&mut call.args);
            }
            Expr::Call(call) => self.all(&mut call.args),
            Expr::Tuple(tuple) => self.all(&mut tuple.elems),
            Expr::Array(array) => self.all(&mut array.elems),
            Expr::Struct(literal) => {
                self.all(literal.fields.iter_mut().map(|field| &mut field.expr));
                self.all(literal.rest.as_deref_mut());
            }
            Expr::Range(range) => {
                self.all(range.start.iter_mut().chain(&mut range.end).map(|end| &mut **end))
            }
            Expr::Return(inner) => self.all(inner.expr.as_deref_mut()),
            Expr::Break(inner) => self.all(inner.expr.as_deref_mut()),
            Expr::Block(inner) => self.block(&mut inner.block),
            Expr::Loop(inner) => self.block(&mut inner.body),
            Expr::ForLoop(inner) => {
                self.expr(&mut inner.expr);
                self.block(&mut inner.body);
            }
            Expr::While(inner) => {
                self.expr(&mut inner.cond);
                self.block(&mut inner.body);
            }
            Expr::If(inner) => {
                self.expr(&mut inner.cond);
                self.block(&mut inner.then_branch);
                self.all(inner.else_branch.as_mut().map(|(_, other)| &mut **other));
            }
            Expr::Match(inner) => {
                self.expr(&mut inner.expr);
                self.arms(&mut inner.arms);
            }
            _ => {}
        }
    }

    /// A mutant in which there is another expression.
    fn instead(&mut self, expr: &mut Expr, original: &impl ToString, other: &Expr) {
        let what = format!("`{}` is `{}`", original.to_string(), other.to_token_stream());
        let condition = self.mutant(&what);
        *expr = parse_quote!((if #condition { #other } else { #expr }));
    }

    fn arms(&mut self, arms: &mut [Arm]) {
        let has_rest = arms.last().is_some_and(|arm| is_rest(&arm.pat));
        let count = arms.len();
        for (index, arm) in arms.iter_mut().enumerate() {
            let text = arm.pat.to_token_stream();
            self.expr(&mut arm.body);
            match &mut arm.pat {
                Pat::Guard(guarded) => self.guard(&mut guarded.guard, &text),
                pattern if has_rest && index + 1 < count => {
                    let condition = self.mutant(&format!("no arm `{text}`"));
                    let whole = Arm::clone(&parse_quote!(#pattern if !#condition => ()));
                    *pattern = whole.pat;
                }
                _ => {}
            }
        }
    }

    fn guard(&mut self, guard: &mut Expr, pattern: &impl ToString) {
        let is_simple = !has_let(guard);
        self.expr(guard);
        for always in [quote!(true), quote!(false)] {
            if is_simple {
                let condition = self.mutant(&format!("guard of `{}` is {always}", pattern.to_string()));
                *guard = parse_quote!((if #condition { #always } else { #guard }));
            }
        }
    }
}

/// The pattern takes whatever is left.
fn is_rest(pattern: &Pat) -> bool {
    match pattern {
        Pat::Wild(_) => true,
        Pat::Ident(name) => {
            name.subpat.is_none() && name.ident.to_string().starts_with(|letter: char| letter.is_lowercase())
        }
        _ => false,
    }
}

fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// What may stand in place of an operator.
fn others(op: BinOp) -> Vec<BinOp> {
    match op {
        BinOp::Eq(_) => vec![parse_quote!(!=)],
        BinOp::Ne(_) => vec![parse_quote!(==)],
        BinOp::Lt(_) => vec![parse_quote!(==), parse_quote!(>), parse_quote!(<=)],
        BinOp::Gt(_) => vec![parse_quote!(==), parse_quote!(<), parse_quote!(>=)],
        BinOp::Le(_) => vec![parse_quote!(>), parse_quote!(<)],
        BinOp::Ge(_) => vec![parse_quote!(<), parse_quote!(>)],
        BinOp::And(_) => vec![parse_quote!(||)],
        BinOp::Or(_) => vec![parse_quote!(&&)],
        BinOp::Add(_) => vec![parse_quote!(-), parse_quote!(*)],
        BinOp::Sub(_) => vec![parse_quote!(+), parse_quote!(/)],
        BinOp::Mul(_) => vec![parse_quote!(+), parse_quote!(/)],
        BinOp::Div(_) => vec![parse_quote!(*), parse_quote!(%)],
        BinOp::BitAnd(_) => vec![parse_quote!(|), parse_quote!(^)],
        BinOp::BitOr(_) => vec![parse_quote!(&), parse_quote!(^)],
        BinOp::Shl(_) => vec![parse_quote!(>>)],
        BinOp::Shr(_) => vec![parse_quote!(<<)],
        BinOp::AddAssign(_) => vec![parse_quote!(-=), parse_quote!(*=)],
        BinOp::SubAssign(_) => vec![parse_quote!(+=), parse_quote!(/=)],
        BinOp::BitAndAssign(_) => vec![parse_quote!(|=)],
        BinOp::BitOrAssign(_) => vec![parse_quote!(&=)],
        _ => Vec::new(),
    }
}

/// What a function may return at once.
fn values(output: &ReturnType) -> Vec<Expr> {
    let ReturnType::Type(_, output) = output else { return vec![parse_quote!(())] };
    let Type::Path(path) = &**output else { return Vec::new() };
    let Some(last) = path.path.segments.last() else { return Vec::new() };
    match last.ident.to_string().as_str() {
        "bool" => vec![parse_quote!(true), parse_quote!(false)],
        "Option" => vec![parse_quote!(None)],
        "f64" => vec![parse_quote!(0.0), parse_quote!(1.0), parse_quote!(-1.0)],
        "i64" | "u64" | "u32" | "u16" | "u8" | "usize" => vec![parse_quote!(0), parse_quote!(1)],
        "Result" if last.to_token_stream().to_string().starts_with("Result < () ,") => {
            vec![parse_quote!(Ok(()))]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_all_its_mutants() {
        let text = "fn f(a: u8) -> bool { match a { 1 => true, b if b > 3 => false, _ => !g() } }";
        let mut mutants = vec![String::new()];
        let changed = changed(text, "a.rs", &mut mutants).unwrap();
        syn::parse_file(&changed).unwrap();
        assert_eq!(
            mutants[1..],
            [
                "a.rs f: no arm `1`",
                "a.rs f: `b > 3` is `b == 3`",
                "a.rs f: `b > 3` is `b < 3`",
                "a.rs f: `b > 3` is `b >= 3`",
                "a.rs f: guard of `b if b > 3` is true",
                "a.rs f: guard of `b if b > 3` is false",
                "a.rs f: `! g ()` is `g ()`",
                "a.rs f: returns true",
                "a.rs f: returns false",
            ]
        );
    }
}
