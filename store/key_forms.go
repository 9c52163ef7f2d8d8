package store

import "github.com/daybookq/daybook/job"

// wellFormed reports whether key has the form of one of the tables.
func wellFormed(key string) bool {
	if key == "" {
		return false
	}
	switch key[0] {
	case metaTable:
		return len(key) == 1
	case queueTable:
		return len(key) == 5
	case batchTable, countsTable, claimTable, claimStateTable, effectTable, sweepTable, sessionTable, handlerDocumentTable,
		submissionTable, submissionStateTable, batchMetadataTable, purgedBatchTable:
		return len(key) == 9
	case slotTable:
		return len(key) == 10
	case spanTable, lineKeyTable, groupTable:
		return len(key) == 13
	case handlerTable:
		name := handlerOfKey(key)
		return name.typ != "" && handlerKey(name) == key
	case statusCountsTable:
		name := queueOfStatusCounts(key)
		return name.typ != "" && statusCountsKey(name) == key
	case filesetTable:
		name := filesetOfKey(key)
		return name.name != "" && filesetKey(name) == key
	case uniqueTable:
		return len(key) > 5 && len(key) <= 5+job.MaxKeyBytes
	case onceTable:
		return len(key) > 8 && len(key) > 7+int(key[5])<<8+int(key[6])
	case ownerTable:
		return len(key) >= 5 && len(key) <= 5+job.MaxScopeBytes
	case sessionOwnerTable:
		return len(key) <= 1+job.MaxRunnerBytes
	case detailTable:
		if len(key) < 14 {
			return false
		}
		if kind := kindOfDetail(key); kind == historyDetail || kind == stepDetail {
			return len(key) == 22
		}
		return len(key) == 14
	case pageTable, sizesTable, partTable:
		return len(key) == 17
	case listTable, idleTable:
		return len(key) == 18
	case jobLeaseTable:
		return len(key) == 21
	case purgedEndTable:
		return len(key) == 25
	case readyTable:
		return len(key) == 30
	case timerTable:
		if len(key) > 11 && key[9] == runnerTimer {
			return len(key) == 11+int(key[10])
		}
		if len(key) < 18 {
			return false
		}
		switch key[9] {
		case claimTimer, sweepTimer, onceTimer, sessionTimer, batchTimer, restTimer, distinctTimer, repeatsTimer, purgedTimer:
			return len(key) == 18
		case runAtTimer, purgeTimer, expireTimer, timeoutTimer:
			return len(key) == 22
		case jobLeaseTimer:
			return len(key) == 30
		}
	case batchIndexTable:
		if len(key) < 2 {
			return false
		}
		switch key[1] {
		case byBatchStatus:
			return len(key) == 11
		case byBatchName, byBatchMeta:
			return len(key) > 11 && key[len(key)-9] == 0
		case bySnowflake:
			return len(key) == 18
		}
	case distinctTable:
		return wellFormedDistinct(key)
	case cellTable:
		return len(key) > orderAt && int(key[orderAt]) < len(cellLevels) && len(key) == orderAt+1+cellTail(key[orderAt])
	case runnerTable:
		return len(key) > 2 && len(key) == 2+int(key[1])
	case holdTable, noticeTable:
		return len(key) > 10 && len(key) == 10+int(key[1])
	}
	return false
}
