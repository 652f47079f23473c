// SPDX-License-Identifier: Apache-2.0

package dns

import "slices"

// UndoAction is what an undo does with one value.
type UndoAction string

// The actions of an undo.
const (
	// UndoRemove removes a value that the run added.
	UndoRemove UndoAction = "remove"
	// UndoRestore puts back a value that the run removed. If the run wrote another value in its
	// place, that value is removed.
	UndoRestore UndoAction = "restore"
	// UndoNothing means that the zone has the state from before the run.
	UndoNothing UndoAction = "nothing_to_do"
	// UndoLeave means that the value was changed since the run, so it is left alone.
	UndoLeave UndoAction = "changed_since"
)

// UndoItem is the decision of an undo on one value.
type UndoItem struct {
	Action UndoAction
	Type   Type
	Name   string
	// Written is the value that the run wrote, "" if it only removed one.
	Written string
	// Previous is the value that the run replaced or removed, "" if it only added one.
	Previous string
}

// Undo is the plan that puts back what writes changed in a zone.
type Undo struct {
	Items []UndoItem
	// Changes are the record sets to write. Their Before is the record set from which Undo was
	// planned.
	Changes []Change
}

// NewUndo plans to put back what the confirmed writes of a run changed in a zone. writes begins with
// the oldest write; the newest is undone first. held has the zone's current record sets. If the zone
// still has a written value, the earlier value is put back in its place. If it does not, someone else
// changed the value, and nothing is written. Values that other people added stay.
func NewUndo(held []RRSet, writes []Write) Undo {
	u := undoing{sets: slices.Clone(held)}
	for _, w := range slices.Backward(writes) {
		for _, c := range slices.Backward(w.Changes) {
			u.undoChange(c, w.Written)
		}
	}
	return Undo{u.items, u.changes(held)}
}

// undoing is an Undo that is being planned. sets are the zone's record sets as they will be when all
// items so far are carried out.
type undoing struct {
	sets  []RRSet
	items []UndoItem
}

// undoChange undoes one change of a write: first each value that it added, then the values that it
// removed without a replacement.
func (u *undoing) undoChange(c Change, written []Written) {
	unchanged := Find(u.sets, c.After.Name, c.After.Type).Same(c.After)
	var replaced []string
	for _, w := range written {
		if w.Type == c.After.Type && sameName(w.Name, c.After.Name) {
			replaced = append(replaced, w.Replaced)
			u.undoValue(c.After, w.Value, w.Replaced)
		}
	}
	for _, value := range c.Before.Values {
		if !slices.Contains(c.After.Values, value) && !slices.Contains(replaced, value) {
			u.restoreRemoved(c.After, value, unchanged)
		}
	}
}

func (u *undoing) undoValue(set RRSet, value, previous string) {
	have := Find(u.sets, set.Name, set.Type)
	if value == previous {
		return // the write only removed copies of this value, so there is nothing to put back
	}
	item := UndoItem{Action: UndoLeave, Type: set.Type, Name: set.Name, Written: value, Previous: previous}
	toRestore := filter([]string{previous}, func(v string) bool { return v != "" && !slices.Contains(have.Values, v) })
	switch {
	case slices.Contains(have.Values, value):
		item.Action = UndoRemove
		if previous != "" {
			item.Action = UndoRestore
		}
		u.put(have, replaceValues(have.Values, []string{value}, toRestore))
	case len(toRestore) == 0:
		item.Action = UndoNothing
	}
	u.items = append(u.items, item)
}

// restoreRemoved puts back a value that was removed without a replacement. It does so only if
// nobody changed the set after the removal.
func (u *undoing) restoreRemoved(set RRSet, value string, unchanged bool) {
	have := Find(u.sets, set.Name, set.Type)
	item := UndoItem{Action: UndoLeave, Type: set.Type, Name: set.Name, Previous: value}
	switch {
	case slices.Contains(have.Values, value):
		item.Action = UndoNothing
	case unchanged:
		item.Action = UndoRestore
		u.put(have, append(slices.Clone(have.Values), value))
	}
	u.items = append(u.items, item)
}

func (u *undoing) put(set RRSet, values []string) {
	set.Values = values
	u.sets = append(slices.DeleteFunc(u.sets, func(s RRSet) bool { return s.Type == set.Type && sameName(s.Name, set.Name) }), set)
}

// changes returns the changes that turn the record sets held into u.sets.
func (u *undoing) changes(held []RRSet) []Change {
	var all []Change
	for _, after := range u.sets {
		if before := Find(held, after.Name, after.Type); !before.Same(after) {
			all = append(all, Change{Before: before, After: after})
		}
	}
	return all
}
