// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Entry is one call to a simulator. Status is the status of the answer. It is recorded right before
// the answer is sent or delayed, and is 0 before that. After the fault DropBefore it stays 0. After
// the fault DropAfter it is the status of the answer that was dropped.
type Entry struct {
	Method    string    `json:"method"`
	Path      string    `json:"path"`
	Operation string    `json:"operation"`
	Status    int       `json:"status"`
	At        time.Time `json:"at"`
	Write     bool      `json:"write"`
	// Violation is the rule of the provider that the call broke, such as IgnoredRetryAfter.
	Violation string `json:"violation,omitempty"`
}

// journal keeps the entries in the order in which the calls arrived. A line is appended to its file
// when a call arrives, and another line when the status is known. If the process is killed, the
// file therefore contains every call that the process executed.
type journal struct {
	mu      sync.Mutex
	file    *os.File
	entries []Entry
	// firstNumber is the number of the call in entries[0]. clear increases it, so that the status
	// of a cleared call is not stored in a later entry.
	firstNumber int
}

// journalLine is one line of the journal's file: a call, or the status of the call in
// entries[Index].
type journalLine struct {
	Index  int    `json:"n"`
	Call   *Entry `json:"call,omitempty"`
	Status int    `json:"status,omitempty"`
}

func openJournal(path string) (*journal, error) {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	j := &journal{}
	completeBytes := j.load(raw)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j.file = file
	return j, file.Truncate(int64(completeBytes)) // remove an incomplete line, which a killed process can leave
}

// load reads the entries from the file's content. It returns the length of the complete lines in
// bytes.
func (j *journal) load(raw []byte) int {
	completeBytes := bytes.LastIndexByte(raw, '\n') + 1
	lines := bufio.NewScanner(bytes.NewReader(raw[:completeBytes]))
	lines.Buffer(nil, maxBody)
	for lines.Scan() {
		var line journalLine
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		if line.Call != nil {
			j.entries = append(j.entries, *line.Call)
		} else if line.Index < len(j.entries) {
			j.entries[line.Index].Status = line.Status
		}
	}
	return completeBytes
}

// recordCall appends a call and returns its number.
func (j *journal) recordCall(e Entry) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	index := len(j.entries)
	j.entries = append(j.entries, e)
	return j.firstNumber + index, j.write(journalLine{Index: index, Call: &e})
}

// recordStatus stores the status of the call with the number n.
func (j *journal) recordStatus(n, status int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	index := n - j.firstNumber
	if index < 0 {
		return nil // the journal was cleared in the meantime
	}
	j.entries[index].Status = status
	return j.write(journalLine{Index: index, Status: status})
}

func (j *journal) write(l journalLine) error {
	raw, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = j.file.Write(append(raw, '\n'))
	return err
}

// allEntries returns a copy of the entries. It is never nil.
func (j *journal) allEntries() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]Entry{}, j.entries...)
}

func (j *journal) clear() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.firstNumber += len(j.entries)
	j.entries = nil
	return j.file.Truncate(0)
}
