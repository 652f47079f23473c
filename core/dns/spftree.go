// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"strings"
)

// The limits of RFC 7208, section 4.6.4.
const (
	maxLookups     = 10
	maxVoidLookups = 2
)

// spfCost counts the DNS lookups that receivers make to evaluate a record and all records that it
// references. It also holds the problems of these records.
type spfCost struct {
	lookups     int
	voidLookups int  // names without TXT records
	unknown     bool // a name could not be read, so there may be more lookups
	broken      bool // a name has no valid SPF record, or has several
}

// spfTree holds the TXT values of the names that SPF records reference, by name.
type spfTree map[string][]string

// cost returns the lookups of a record, including those of all records that it references. It
// follows no further name beyond maxLookups.
func (t spfTree) cost(r spfRecord) spfCost {
	var cost spfCost
	t.count(r, nil, &cost)
	return cost
}

func (t spfTree) count(r spfRecord, path []string, total *spfCost) {
	for _, term := range r.reachableTerms() {
		switch {
		case term.isModifier:
		case term.is("include"):
			t.follow(term.value, path, total)
		case term.is("a"), term.is("mx"), term.is("ptr"), term.is("exists"):
			total.lookups++
		}
	}
	if target := r.redirect(); target != "" {
		t.follow(target, path, total)
	}
}

func (t spfTree) follow(target string, path []string, total *spfCost) {
	total.lookups++
	target = normalName(target)
	if total.lookups > maxLookups || strings.Contains(target, "%") {
		return
	}
	if slices.Contains(path, target) {
		total.lookups = maxLookups + 1 // a loop needs endless lookups
		return
	}
	texts, known := t[target]
	if !known {
		total.unknown = true
		return
	}
	if len(texts) == 0 {
		total.voidLookups++
	}
	next, ok := soleSPF(texts)
	total.broken = total.broken || !ok
	t.count(next, append(slices.Clip(path), target), total)
}

// reaches reports whether a record leads to the name of an include term, directly or through other
// records. It follows redirects, and includes with the qualifier "+".
func (t spfTree) reaches(r spfRecord, include spfTerm) bool {
	return t.leadsTo(r, normalName(include.value), map[string]bool{})
}

func (t spfTree) leadsTo(r spfRecord, name string, seen map[string]bool) bool {
	names := []string{}
	for _, term := range r.reachableTerms() {
		if term.is("include") && term.qualifier == '+' {
			names = append(names, normalName(term.value))
		}
	}
	if target := r.redirect(); target != "" {
		names = append(names, normalName(target))
	}
	return slices.ContainsFunc(names, func(target string) bool {
		if target == name {
			return true
		}
		next, ok := soleSPF(t[target])
		if !ok || seen[target] {
			return false
		}
		seen[target] = true
		return t.leadsTo(next, name, seen)
	})
}

// soleSPF parses the only SPF record among texts. It returns false if texts has no SPF record or
// several, or if the record is invalid.
func soleSPF(texts []string) (spfRecord, bool) {
	found := filter(texts, isSPF)
	if len(found) != 1 {
		return spfRecord{}, false
	}
	return parseSPF(found[0])
}
