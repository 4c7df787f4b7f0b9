use std::collections::HashMap;

/// Every name once.
#[derive(Debug, Default)]
pub(crate) struct Names {
    ids: HashMap<Box<str>, u32>,
    texts: Vec<Box<str>>,
    bytes: usize,
}

/// The number of a name.
pub(crate) type NameId = u32;

/// No name.
pub(crate) const NAMELESS: NameId = NameId::MAX;

impl Names {
    pub(crate) fn id(&mut self, name: &str) -> NameId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let Ok(id) = NameId::try_from(self.texts.len()) else { return NAMELESS };
        self.ids.insert(name.into(), id);
        self.texts.push(name.into());
        self.bytes += 2 * name.len() + 48;
        id
    }

    pub(crate) fn text(&self, id: NameId) -> &str {
        self.texts.get(id as usize).map_or("", |text| text)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NameId, &str)> {
        (0..).zip(self.texts.iter().map(|text| &**text))
    }

    /// Memory they take.
    pub(crate) fn size(&self) -> usize {
        self.bytes
    }
}
