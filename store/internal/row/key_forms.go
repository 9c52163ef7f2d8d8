package row

import "github.com/daybookq/daybook/job"

// WellFormed reports whether key has the form of one of the tables.
func WellFormed(key string) bool {
	if key == "" {
		return false
	}
	switch key[0] {
	case MetaTable:
		return len(key) == 1
	case QueueTable:
		return len(key) == 5
	case BatchTable, CountsTable, ClaimTable, ClaimStateTable, EffectTable, SweepTable, SessionTable, DocumentTextTable,
		SubmissionTable, SubmissionStateTable, BatchMetadataTable, PurgedBatchTable, AuditTable, ScopedAuditTable:
		return len(key) == 9
	case SlotTable:
		return len(key) == 10
	case EffectIndexTable:
		return len(key) == EffectIndexKeyBytes
	case SpanTable, LineKeyTable, GroupTable:
		return len(key) == 13
	case DocumentTable:
		if len(key) < 4 || !isKind(key[1]) {
			return false
		}
		name, deleted := DocumentOfKey(key)
		return name.Name != "" && DocumentKey(name, deleted) == key
	case DeletionTable:
		return len(key) == 10 && isKind(key[1])
	case StatusCountsTable:
		name := QueueOfStatusCounts(key)
		return name.Typ != "" && StatusCountsKey(name) == key
	case UniqueTable:
		return len(key) > 5 && len(key) <= 5+job.MaxKeyBytes
	case OnceTable:
		return len(key) > 8 && len(key) > 7+int(key[5])<<8+int(key[6])
	case OwnerTable:
		return len(key) >= 5 && len(key) <= 5+job.MaxScopeBytes
	case SessionOwnerTable:
		return len(key) <= 1+job.MaxRunnerBytes
	case DetailTable:
		if len(key) < 14 {
			return false
		}
		switch KindOfDetail(key) {
		case HistoryDetail:
			return len(key) == 22
		case StepDetail:
			return len(key) == 15
		}
		return len(key) == 14
	case PageTable, SizesTable, PartTable:
		return len(key) == 17
	case ListTable, IdleTable:
		return len(key) == 18
	case JobLeaseTable:
		return len(key) == 21
	case MovedTable:
		return len(key) == 26
	case PurgedEndTable:
		return len(key) == 25
	case ReadyTable:
		return len(key) == 30
	case TimerTable:
		if len(key) > 11 && key[9] == RunnerTimer {
			return len(key) == 11+int(key[10])
		}
		if len(key) < 18 {
			return false
		}
		switch key[9] {
		case ClaimTimer, SweepTimer, OnceTimer, SessionTimer, BatchTimer, RestTimer, DistinctTimer, RepeatsTimer, PurgedTimer:
			return len(key) == 18
		case RunAtTimer, PurgeTimer, ExpireTimer, TimeoutTimer:
			return len(key) == 22
		case JobLeaseTimer:
			return len(key) == 30
		}
	case BatchIndexTable:
		if len(key) < 2 {
			return false
		}
		switch key[1] {
		case ByBatchStatus:
			return len(key) == 11
		case byBatchName, byBatchMeta:
			return len(key) > 11 && key[len(key)-9] == 0
		case bySnowflake:
			return len(key) == 18
		}
	case DistinctTable:
		return wellFormedDistinct(key)
	case CellTable:
		return len(key) > OrderAt && int(key[OrderAt]) < len(CellLevels) && len(key) == OrderAt+1+cellTail(key[OrderAt])
	case RunnerTable:
		return len(key) > 2 && len(key) == 2+int(key[1])
	case HoldTable, NoticeTable:
		return len(key) > 10 && len(key) == 10+int(key[1])
	}
	return false
}

func isKind(b byte) bool { return b != 0 && b < byte(job.NumDocumentKinds) }
