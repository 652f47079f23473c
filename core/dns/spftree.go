// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"strings"
)

// RFC 7208, section 4.6.4.
const (
	maxLookups = 10
	maxVoid    = 2
)

// spfCost is what receivers must look up to evaluate a record to its end.
type spfCost struct {
	lookups int
	void    int  // names that have nothing at all
	unknown bool // a name was not found out: there may be more
	broken  bool // a name has no record that receivers take
}

type spfTree map[string][]string

// cost counts the lookups of a record through all to which it refers. It stops
// counting once there are too many.
func (t spfTree) cost(r spfRecord) spfCost {
	var c spfCost
	t.count(r, nil, &c)
	return c
}

func (t spfTree) count(r spfRecord, path []string, c *spfCost) {
	for _, term := range r.live() {
		switch {
		case term.modifier:
		case term.is("include"):
			t.follow(term.value, path, c)
		case term.is("a"), term.is("mx"), term.is("ptr"), term.is("exists"):
			c.lookups++
		}
	}
	if to := r.redirect(); to != "" {
		t.follow(to, path, c)
	}
}

func (t spfTree) follow(to string, path []string, c *spfCost) {
	c.lookups++
	to = referred(to)
	if c.lookups > maxLookups || strings.Contains(to, "%") {
		return
	}
	if slices.Contains(path, to) {
		c.lookups = maxLookups + 1 // a circle never ends
		return
	}
	texts, known := t[to]
	if !known {
		c.unknown = true
		return
	}
	if len(texts) == 0 {
		c.void++
	}
	next, ok := soleSPF(texts)
	c.broken = c.broken || !ok
	t.count(next, append(slices.Clip(path), to), c)
}

// reaches reports whether a record passes what an include passes, by way of the
// names to which it refers.
func (t spfTree) reaches(r spfRecord, include spfTerm) bool {
	return t.leadsTo(r, referred(include.value), map[string]bool{})
}

func (t spfTree) leadsTo(r spfRecord, name string, seen map[string]bool) bool {
	names := []string{}
	for _, term := range r.live() {
		if term.is("include") && term.qualifier == '+' {
			names = append(names, referred(term.value))
		}
	}
	if to := r.redirect(); to != "" {
		names = append(names, referred(to))
	}
	return slices.ContainsFunc(names, func(to string) bool {
		if to == name {
			return true
		}
		next, ok := soleSPF(t[to])
		if !ok || seen[to] {
			return false
		}
		seen[to] = true
		return t.leadsTo(next, name, seen)
	})
}

// soleSPF reads the one SPF record among texts. Two are as good as none.
func soleSPF(texts []string) (spfRecord, bool) {
	found := only(texts, isSPF)
	if len(found) != 1 {
		return spfRecord{}, false
	}
	return parseSPF(found[0])
}

func only(texts []string, is func(string) bool) []string {
	var out []string
	for _, text := range texts {
		if is(text) {
			out = append(out, text)
		}
	}
	return out
}
