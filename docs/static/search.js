// How results of the search are sorted: as Sphinx does, with the changelog behind all others.
var Scorer = {
  score: ([docname, , , , score]) => (docname === "changelog" ? score - 10000 : score),
  objNameMatch: 11, objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
