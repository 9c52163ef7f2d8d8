package job

// Origin is what a log of several nodes knows of the commands of one node. The process of the node draws an id when it
// starts, announces it, and numbers its commands from 1 on. So each command is carried out once, however often the process
// sends it, and a command that is missing delays those after it instead of being skipped.
//
// The leader decides by it which commands it writes, the log which ones are answered, and Apply which ones are carried
// out, all by these two methods.
type Origin struct {
	ID    uint64
	Start uint64 // how many processes of this node have announced an id
	Last  uint64 // the number of the last command in the log
}

// Announce notes that the next process of the node has started. From then on, no command of the process before it is
// taken. It returns false if another process announced itself first: this announcement then has no effect.
func (o *Origin) Announce(id, start uint64) bool {
	if start != o.Start+1 {
		return false
	}
	*o = Origin{ID: id, Start: start}
	return true
}

// Take notes that a command is in the log. It returns false if the command is of an earlier process, was taken before, or
// if one before it is missing: the command then has no effect.
func (o *Origin) Take(id, number uint64) bool {
	if id != o.ID || number != o.Last+1 {
		return false
	}
	o.Last = number
	return true
}
