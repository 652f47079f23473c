// SPDX-License-Identifier: Apache-2.0

package dns

import "slices"

// UndoAction is what an undo does with one value.
type UndoAction string

// The actions of an undo.
const (
	// UndoRemove removes a value that the run added.
	UndoRemove UndoAction = "remove"
	// UndoRestore restores a value that the run removed. If the run wrote a new value in its place,
	// the undo removes the new value.
	UndoRestore UndoAction = "restore"
	// UndoNothing means that the zone already has the state from before the run.
	UndoNothing UndoAction = "nothing_to_do"
	// UndoLeave means that the value or its record set was changed since the run, so the undo does
	// not touch the value.
	UndoLeave UndoAction = "changed_since"
)

// UndoItem is the decision of an undo on one value.
type UndoItem struct {
	Action UndoAction
	Type   Type
	Name   string
	// Written is the value that the run wrote, "" if the run only removed a value.
	Written string
	// Previous is the value that the run replaced or removed, "" if the run only added a value.
	Previous string
}

// Undo is the plan that undoes the writes of a run in a zone.
type Undo struct {
	Items []UndoItem
	// Changes are the record sets to write. In each change, Before is the current record set from
	// which the undo was planned.
	Changes []Change
}

// NewUndo plans to undo the writes of a run in a zone. writes holds the writes that ResolveWrites
// returns as made, oldest first. NewUndo undoes the newest write first. current has the zone's
// current record sets. If the zone still has a written value, the undo removes this value and
// restores the value that it replaced, if any. Otherwise the undo writes nothing for this value. It
// keeps values that other people added.
func NewUndo(current []RRSet, writes []Write) Undo {
	u := undoPlanner{sets: slices.Clone(current)}
	for _, w := range slices.Backward(writes) {
		for _, c := range slices.Backward(w.Changes) {
			u.undoChange(c, w.Written)
		}
	}
	return Undo{u.items, u.changes(current)}
}

// undoPlanner is an Undo that is being planned. sets are the zone's record sets after the undo of
// all items so far.
type undoPlanner struct {
	sets  []RRSet
	items []UndoItem
}

// undoChange undoes one change of a write. It first undoes each value that the change added. It
// then restores the values that the change removed without a replacement.
func (u *undoPlanner) undoChange(c Change, written []Written) {
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

func (u *undoPlanner) undoValue(set RRSet, value, previous string) {
	current := Find(u.sets, set.Name, set.Type)
	if value == previous {
		return // the write only removed copies of this value, so there is nothing to restore
	}
	item := UndoItem{Action: UndoLeave, Type: set.Type, Name: set.Name, Written: value, Previous: previous}
	toRestore := filter([]string{previous}, func(v string) bool { return v != "" && !slices.Contains(current.Values, v) })
	switch {
	case slices.Contains(current.Values, value):
		item.Action = UndoRemove
		if previous != "" {
			item.Action = UndoRestore
		}
		u.setValues(current, replaceValues(current.Values, []string{value}, toRestore))
	case len(toRestore) == 0:
		item.Action = UndoNothing
	}
	u.items = append(u.items, item)
}

// restoreRemoved restores a value that was removed without a replacement. It does so only if nobody
// changed the set after the removal.
func (u *undoPlanner) restoreRemoved(set RRSet, value string, unchanged bool) {
	current := Find(u.sets, set.Name, set.Type)
	item := UndoItem{Action: UndoLeave, Type: set.Type, Name: set.Name, Previous: value}
	switch {
	case slices.Contains(current.Values, value):
		item.Action = UndoNothing
	case unchanged:
		item.Action = UndoRestore
		u.setValues(current, append(slices.Clone(current.Values), value))
	}
	u.items = append(u.items, item)
}

func (u *undoPlanner) setValues(set RRSet, values []string) {
	set.Values = values
	u.sets = append(slices.DeleteFunc(u.sets, func(s RRSet) bool { return s.Type == set.Type && sameName(s.Name, set.Name) }), set)
}

// changes returns the changes that turn the current record sets into u.sets.
func (u *undoPlanner) changes(current []RRSet) []Change {
	var changes []Change
	for _, after := range u.sets {
		if before := Find(current, after.Name, after.Type); !before.Same(after) {
			changes = append(changes, Change{Before: before, After: after})
		}
	}
	return changes
}
