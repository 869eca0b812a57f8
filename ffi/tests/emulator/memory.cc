#include "emulator/memory.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace fhejax::emulator {
namespace {

constexpr size_t kFindings = 8;

constexpr char kRace[] = "race", kOutside[] = "out of bounds";

struct Segment {
  uintptr_t begin, end;
};

// The read-only segments of this library: constants, and the tables of switch statements.
std::vector<Segment> ConstantSegments() {
  std::vector<Segment> segments;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        const auto here = reinterpret_cast<uintptr_t>(&ConstantSegments);
        std::vector<Segment> found;
        bool ours = false;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type != PT_LOAD) continue;
          const uintptr_t begin = info->dlpi_addr + header.p_vaddr, end = begin + header.p_memsz;
          ours = ours || (begin <= here && here < end);
          if (!(header.p_flags & PF_W)) found.push_back({begin, end});
        }
        if (ours) *static_cast<std::vector<Segment>*>(result) = found;
        return ours ? 1 : 0;
      },
      &segments);
  return segments;
}

// "file.cu:12", or "?" where binutils are missing.
std::string SourceLine(void* from) {
  Dl_info info;
  if (!dladdr(from, &info)) return "?";
  const auto offset = static_cast<char*>(from) - static_cast<char*>(info.dli_fbase) - 1;
  char command[1024], line[512] = "?";
  std::snprintf(command, sizeof command, "addr2line -s -e '%s' %#tx 2>/dev/null", info.dli_fname, offset);
  if (FILE* const output = popen(command, "r")) {
    if (!std::fgets(line, sizeof line, output)) std::strcpy(line, "?");
    pclose(output);
  }
  return std::string(line, std::strcspn(line, " \n"));
}

std::string DescribeAccess(const Access& access) {
  static const char* const kinds[] = {"read", "write", "atomic"};
  return std::string(kinds[static_cast<int>(access.kind)]) + " at " + SourceLine(access.from) + " by thread " +
         std::to_string(access.thread);
}

const char* NameOf(Region region) {
  static const char* const names[] = {"an operand", "a table", "a result", "shared memory"};
  return names[static_cast<int>(region)];
}

// Whether `old` happened before the access that the observer makes now, by what CUDA promises.
bool IsOrdered(const Access& old, const Observer& now, Region region) {
  if (old.block != now.block) return region == Region::kShared || old.block < now.first_block;
  if (old.thread == now.thread || old.barrier < now.barrier) return true;
  return old.thread / kWarp == now.thread / kWarp && now.clock[old.thread % kWarp] > old.clock;
}

}  // namespace

void Memory::Add(const void* data, size_t bytes, Region kind, bool tracked) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const size_t granules = tracked ? (bytes + 3) / 4 : 0;
  if (bytes) ranges_.try_emplace(begin, Range{begin, begin + bytes, kind, std::vector<Granule>(granules)});
}

void Memory::Remove(const void* data) {
  ranges_.erase(reinterpret_cast<uintptr_t>(data));
  last_ = nullptr;
}

void Memory::SetArguments(const void* data, size_t bytes) {
  arguments_begin_ = reinterpret_cast<uintptr_t>(data);
  arguments_end_ = arguments_begin_ + bytes;
}

Memory::Range* Memory::Find(uintptr_t address, size_t bytes) {
  if (!last_ || address < last_->begin || address + bytes > last_->end) {
    auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return nullptr;
    Range& range = std::prev(after)->second;
    if (address + bytes > range.end) return nullptr;
    last_ = &range;
  }
  return last_;
}

bool Memory::IsConstant(uintptr_t address, size_t bytes) const {
  static const std::vector<Segment> segments = ConstantSegments();
  if (arguments_begin_ <= address && address + bytes <= arguments_end_) return true;
  return std::any_of(segments.begin(), segments.end(),
                     [&](Segment segment) { return segment.begin <= address && address + bytes <= segment.end; });
}

void Memory::Check(uintptr_t address, size_t bytes, Kind kind, void* from, const Observer& observer) {
  Access now{observer.block, observer.barrier, observer.clock[observer.thread % kWarp] - 1, observer.thread, 0, kind, from};
  Range* const range = Find(address, bytes);
  if (!range) {
    if (kind != Kind::kRead || !IsConstant(address, bytes)) Report(kOutside, Region::kShared, now, now);
    return;
  }
  if (kind != Kind::kRead && range->kind <= Region::kTable) return Report("write to read-only memory", range->kind, now, now);
  if (range->granules.empty()) return;
  for (uintptr_t at = address; at < address + bytes;) {
    const uintptr_t next = std::min((at & ~uintptr_t{3}) + 4, address + bytes);
    now.bytes = static_cast<uint8_t>(((1u << (next - at)) - 1) << at % 4);
    CheckGranule(range->granules[(at - (range->begin & ~uintptr_t{3})) / 4], *range, now, observer);
    at = next;
  }
}

void Memory::CheckGranule(Granule& granule, const Range& range, const Access& now, const Observer& observer) {
  const Access& write = granule.write;
  const bool written = range.kind == Region::kShared ? write.block == now.block : write.block != 0;
  if (!written && now.kind != Kind::kWrite) Report("uninitialised read", range.kind, now, now);
  const bool atomics = write.kind == Kind::kAtomic && now.kind == Kind::kAtomic;
  if (write.bytes & now.bytes && !atomics && !IsOrdered(write, observer, range.kind)) Report(kRace, range.kind, write, now);
  if (now.kind == Kind::kRead) {
    if (granule.reads[0].block != now.block || granule.reads[0].thread != now.thread) granule.reads[1] = granule.reads[0];
    granule.reads[0] = now;
    return;
  }
  for (const Access& read : granule.reads)
    if (read.bytes & now.bytes && !IsOrdered(read, observer, range.kind)) Report(kRace, range.kind, read, now);
  granule.write = now;
}

void Memory::Report(const char* what, Region region, const Access& first, const Access& second) {
  if (findings_.size() < kFindings && seen_.emplace(what, first.from, second.from).second)
    findings_.push_back({what, region, first, second});
}

std::string Memory::Describe() const {
  std::string text;
  for (const Finding& finding : findings_) {
    text += finding.what;
    if (finding.what != kOutside) text += std::string(" in ") + NameOf(finding.region);
    text += ": " + DescribeAccess(finding.second);
    if (finding.what == kRace)
      text += ", " + DescribeAccess(finding.first) +
              (finding.first.block == finding.second.block ? "" : " of another block");
    text += "\n";
  }
  return text;
}

}  // namespace fhejax::emulator
