// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// kind is the type of a cmdlet's parameter.
type kind struct {
	name string
	// accepts takes the JSON value over, or not.
	accepts func(any) bool
	// values are the members of an enumeration.
	values []string
}

var (
	text    = kind{name: "string", accepts: isText}
	address = kind{name: "SmtpAddress", accepts: func(v any) bool {
		s, ok := v.(string)
		return ok && mailForm.MatchString(s)
	}}
	boolean  = kind{name: "Boolean", accepts: isBool}
	flag     = kind{name: "SwitchParameter", accepts: isBool}
	nullable = kind{name: "Nullable", accepts: func(v any) bool { return v == nil || isBool(v) }}
	number   = kind{name: "UInt16", accepts: func(v any) bool {
		n, ok := v.(float64)
		return ok && n == float64(int(n)) && n > 0 && n < 65536
	}}
	count = kind{name: "Int32", accepts: func(v any) bool {
		n, ok := v.(float64)
		return ok && n == float64(int(n)) && n >= 0
	}}
	traceSize = kind{name: "Int32", accepts: func(v any) bool {
		n, ok := v.(float64)
		return ok && n == float64(int(n)) && n >= 1 && n <= traceLargest
	}}
	date = kind{name: "DateTime", accepts: isDate}
	// list is one text or several; null takes away what there was.
	list = kind{name: "MultiValuedProperty", accepts: func(v any) bool {
		several, _ := v.([]any)
		return v == nil || isText(v) || several != nil && !slices.ContainsFunc(several, func(one any) bool { return !isText(one) })
	}}
	limit = kind{name: "Unlimited", accepts: func(v any) bool {
		n, ok := v.(float64)
		return v == "Unlimited" || ok && n == float64(int(n)) && n > 0
	}}
	mailForm = regexp.MustCompile(`^[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]+@(?i)([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}$`)
)

func isText(v any) bool { _, ok := v.(string); return ok }
func isBool(v any) bool { _, ok := v.(bool); return ok }

// enum is a list of members of an enumeration, given as an array or as one
// text. A text that only begins a member is taken too.
func enum(values ...string) kind {
	return kind{name: "Enum", values: values, accepts: func(v any) bool {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		return !slices.ContainsFunc(list, func(one any) bool {
			s, ok := one.(string)
			return !ok || s == "" || !slices.ContainsFunc(values, func(member string) bool {
				return strings.HasPrefix(strings.ToLower(member), strings.ToLower(s))
			})
		})
	}}
}

// params are the parameters of one call by their lower-case names.
type params map[string]any

func (p params) has(name string) bool    { _, ok := p[strings.ToLower(name)]; return ok }
func (p params) text(name string) string { s, _ := p[strings.ToLower(name)].(string); return s }
func (p params) yes(name string) bool    { b, _ := p[strings.ToLower(name)].(bool); return b }

// texts reads a parameter that is one text or several.
func (p params) texts(name string) []string {
	if s := p.text(name); s != "" {
		return []string{s}
	}
	return texts(p[strings.ToLower(name)])
}

// readParams checks the parameters against what the cmdlet takes: an unknown
// name before a wrong type, a wrong type before a missing one.
func readParams(c cmdlet, raw json.RawMessage) (params, *exception) {
	var given map[string]any
	if json.Unmarshal(raw, &given) != nil || given == nil {
		return nil, errBadCommand.of("")
	}
	read := params{}
	for _, name := range sorted(given) {
		taken, ok := c.parameter(name)
		if !ok {
			return nil, errAmbiguous.of(name)
		}
		if !taken.accepts(given[name]) {
			return nil, errTransform.of("'" + name + "'. Cannot convert the value to type \"" + taken.name + "\".")
		}
		read[strings.ToLower(name)] = given[name]
	}
	for _, name := range c.mandatory {
		if !read.has(name) {
			return nil, errMissing.of(name)
		}
	}
	return read, nil
}

func sorted(given map[string]any) []string {
	var names []string
	for name := range given {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// parameter finds a parameter whatever its case.
func (c cmdlet) parameter(name string) (kind, bool) {
	for known, k := range c.takes {
		if strings.EqualFold(known, name) {
			return k, true
		}
	}
	return kind{}, false
}
